"""Training, evaluation and prediction of task models."""
