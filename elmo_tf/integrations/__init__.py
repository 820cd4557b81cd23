"""Vectors in the pipelines of other libraries: scikit-learn and spaCy."""
