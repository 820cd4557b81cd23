"""Text processing: tokens, char ids, vocabularies, text files and language-model windows."""
