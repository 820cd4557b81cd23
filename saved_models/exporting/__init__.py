"""Writing SavedModels, verifying them, and loading one as a Keras layer."""
