"""Training of task models: settings, kinds of tasks, batches, and the main functions."""
