"""Training of task models: configuration, kinds of tasks, batches, and the main."""
