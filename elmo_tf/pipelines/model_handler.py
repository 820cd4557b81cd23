"""Sentences ─► vectors with `RunInference` of Apache Beam."""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from elmo_tf.checkpoints.hugging_face import is_hub_name
from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.layer_choice import check_layers
from elmo_tf.extras import require_extra
from elmo_tf.pipelines.exported_embedder import ExportedEmbedder, checked_version, load_embedder
from elmo_tf.pipelines.local_copies import is_remote, local_tree
from elmo_tf.precision import PRECISIONS
from elmo_tf.text.sentences import decode

inference = require_extra("apache_beam.ml.inference.base", "beam", "An embedding pipeline")

Sentence = str | bytes | Sequence[str | bytes]

# `Embedder` batches per Beam batch. Sentences of similar length in a Beam batch share a batch.
_NUM_BATCHES = 8


class SentenceModel:
    """A loaded model, whose method can also be called from another process.

    Args:
        embedder: an `Embedder` or an `ExportedEmbedder`.
    """

    def __init__(self, embedder: Embedder | ExportedEmbedder):
        self._embedder = embedder

    def vectors(self, sentences: list[list[str | bytes]]) -> list[np.ndarray]:
        """One array per sentence, as a list, since iterators cannot be sent between processes."""
        return list(self._embedder.embed(sentences))


class EmbeddingHandler(inference.ModelHandler[Sentence, inference.PredictionResult, SentenceModel]):
    """Computes contextual vectors of sentences with `RunInference`.

    An example is a sentence: a `str` or `bytes`, split as by `str.split()`, or a list of tokens.
    Its inference is the array of `Embedder.embed`: float32 (L + 1, T, dim) or (T, dim). For
    examples with keys, use `KeyedEmbeddingHandler`.

    Args:
        model: an argument of `load_bilm`, or the folder of an exported model (one version, or all
            versions for the newest). Each worker process loads it, so it must be readable there: in
            the image, on a shared disk, or on a filesystem of Beam (`gs://`, `s3://`, `hdfs://`),
            from which each process makes a temporary copy.
        layers: see `Embedder`. Defaults to "all".
        precision: "float32" or "bfloat16", see `Embedder`. Must be "float32" for an exported model.
            Defaults to "float32".
        batch_tokens: int >= 1, see `Embedder`. Beam batches have eight times as many tokens.
            Defaults to 4096.
        large_model: whether all processes of a machine share one model, as in the handlers of Beam.
            Defaults to False.

    Raises:
        ValueError: an argument is not allowed. The precision of a remote exported model is checked
            on the workers.
    """

    def __init__(
        self,
        model: Any,
        layers: str | int = "all",
        precision: str = "float32",
        batch_tokens: int = 4096,
        large_model: bool = False,
    ):
        super().__init__(large_model=large_model)
        check_layers(layers)
        check_choice(precision, "precision", PRECISIONS)
        check_int(batch_tokens, "batch_tokens", ge=1)
        is_pair = isinstance(model, tuple | list)
        self._model = tuple(map(os.fspath, model)) if is_pair else os.fspath(model)
        self._layers = layers
        self._precision = precision
        self._batch_tokens = batch_tokens
        if not is_pair and not is_remote(self._model):
            checked_version(self._model, self._precision)

    def load_model(self) -> SentenceModel:
        how = self._layers, self._precision, self._batch_tokens
        with contextlib.ExitStack() as stack:
            if isinstance(self._model, tuple):
                model = tuple(stack.enter_context(_readable(path)) for path in self._model)
            else:
                model = stack.enter_context(_readable(self._model))
            return SentenceModel(load_embedder(model, *how))

    def run_inference(
        self,
        batch: Sequence[Sentence],
        model: SentenceModel,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[inference.PredictionResult]:
        """Yields one result per sentence, in the order of the batch."""
        vectors = model.vectors(list(map(_tokens, batch)))
        for sentence, array in zip(batch, vectors, strict=True):
            yield inference.PredictionResult(sentence, array)

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        """Limits batches by their number of tokens, so that memory is bounded."""
        num_tokens = _NUM_BATCHES * self._batch_tokens

        def size(sentence: Sentence) -> int:
            # For a larger size, BatchElements would first create an empty batch.
            return min(num_tokens, len(_tokens(sentence)) + 2)

        return {
            "min_batch_size": num_tokens,
            "max_batch_size": num_tokens,
            "element_size_fn": size,
        }

    def get_metrics_namespace(self) -> str:
        return "BeamML_elmo_tf"

    def update_model_path(self, model_path: str | None = None) -> None:
        """Sets the path of a newer model, for the model updates of Beam."""
        self._model = model_path or self._model


class KeyedEmbeddingHandler(inference.KeyedModelHandler):
    """An `EmbeddingHandler` for examples `(key, sentence)`, with results `(key, result)`.

    `KeyedModelHandler` of Beam would measure each example as a sentence of two tokens.

    Args:
        handler: an `EmbeddingHandler`.
    """

    def __init__(self, handler: EmbeddingHandler):
        super().__init__(handler)
        self._handler = handler

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        kwargs = self._handler.batch_elements_kwargs()
        size = kwargs["element_size_fn"]
        return {**kwargs, "element_size_fn": lambda example: size(example[1])}


def _readable(path: str) -> Any:
    """A context that yields a local path of a model, or its URL or name for `load_bilm`."""
    if path.startswith(("http://", "https://")) or is_hub_name(path):
        return contextlib.nullcontext(path)
    return local_tree(path)


def _tokens(sentence: Sentence) -> list[str | bytes]:
    return decode(sentence).split() if isinstance(sentence, str | bytes) else list(sentence)
