"""The ways from a client to a model server: gRPC and REST, of any TF Serving server."""
