"""Text files ─► Parquet shards of vectors, on many machines with Ray."""

from elmo_tf.lazy import lazy_names

_HOMES = {"embed_with_ray": "elmo_tf.pipelines.ray_job"}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
