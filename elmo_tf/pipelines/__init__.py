"""Text files ─► Parquet shards of vectors, on many machines with Ray or Apache Beam."""

from elmo_tf.lazy import lazy_names

_HOMES = {
    "EmbeddingHandler": "elmo_tf.pipelines.model_handler",
    "KeyedEmbeddingHandler": "elmo_tf.pipelines.model_handler",
    "embed_files": "elmo_tf.pipelines.embedding_pipeline",
    "embed_with_ray": "elmo_tf.pipelines.ray_job",
    "run_embedding_pipeline": "elmo_tf.pipelines.embedding_pipeline",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
