"""Loading and saving of checkpoints in all supported formats."""
