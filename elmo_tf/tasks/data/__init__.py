"""Readers of task data: tags, labels, questions, semantic roles, coreference, word vectors."""
