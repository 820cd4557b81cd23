"""The embedded model server, with the packages of the extra `serve`."""

from elmo_tf.lazy import require_extra

for _module in ("grpc_health", "prometheus_client", "starlette", "uvicorn"):
    require_extra(_module, "serve", "The server")
