"""The embedded model server."""
