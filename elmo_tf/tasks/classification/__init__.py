"""One label per text."""
