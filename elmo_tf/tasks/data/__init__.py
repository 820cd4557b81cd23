"""Readers of task files: tagged sentences, labelled texts, word vectors."""
