"""The embedded server: exported models in, answers out, by the protocols of TF Serving."""
