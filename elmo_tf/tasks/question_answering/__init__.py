"""Answers to questions, each a part of a passage."""
