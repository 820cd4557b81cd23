"""Exported biLMs: writing them, checking them, loading, serving and asking them."""
