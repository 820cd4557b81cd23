"""Readers of task data: tagged sentences, labelled texts, word vectors."""
