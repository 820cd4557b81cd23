"""Tags of tokens: parts of speech and named entities."""
