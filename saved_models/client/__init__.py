"""The client of any TF Serving server, over gRPC."""

from elmo_tf.saved_models.client.calls import ServerError as ServerError
from elmo_tf.saved_models.client.client import Client as Client
