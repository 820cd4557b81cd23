"""Training: configuration, streams of text, steps, optimisers, and the mains."""
