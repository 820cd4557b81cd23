"""Sentences ─► vectors within Beam: the model of `RunInference`."""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.layer_choice import LAYERS
from elmo_tf.pipelines.beam_names import KeyedModelHandler, ModelHandler, PredictionResult
from elmo_tf.pipelines.exported_embedder import ExportedEmbedder, exported_version
from elmo_tf.pipelines.local_copies import is_remote, local_tree
from elmo_tf.precision import PRECISIONS

Sentence = str | bytes | Sequence[str | bytes]

# `Embedder` batches of a Beam batch, within which sentences of like length are put together.
_BATCHES = 8


class SentenceModel:
    """A loaded model, with what may be asked of it from another process too.

    Args:
        embedder: an `Embedder` or an `ExportedEmbedder`.
    """

    def __init__(self, embedder: Embedder | ExportedEmbedder):
        self._embedder = embedder

    def vectors(self, sentences: list[list[str | bytes]]) -> list[np.ndarray]:
        """One array a sentence."""
        return list(self._embedder.embed(sentences))


class EmbeddingHandler(ModelHandler[Sentence, PredictionResult, SentenceModel]):
    """Contextual vectors of sentences by `RunInference`.

    An example is a sentence: a `str` or `bytes`, split where `str.split()` would, or its tokens.
    Its inference is what `Embedder` gives: float32 (L + 1, T, dim) or (T, dim). For examples with
    keys there is `KeyedEmbeddingHandler`.

    Args:
        model: what `load_bilm` takes, or an exported model: the folder of a version, or of all for
            the newest. It is loaded on the workers, once in each process, so each must be able to
            read it: a path in their image or on a shared disk, or one of a filesystem that Beam
            knows (`gs://`, `s3://`, `hdfs://`), from which each process makes a temporary copy.
        layers: "all", "top", "average" or "mix". See `Embedder`.
        precision: "float32" or "bfloat16". See `Embedder`. An exported model has float32 alone.
        batch_tokens: int >= 1. See `Embedder`. Beam is asked for batches of eight times as many.
        large_model: whether all processes of a machine share one model, as in Beam's own handlers.

    Raises:
        ValueError: an argument is none of these. Of an exported model that cannot be seen from
            here, the precision is checked on the workers.
    """

    def __init__(
        self,
        model: Any,
        layers: str = "all",
        precision: str = "float32",
        batch_tokens: int = 4096,
        large_model: bool = False,
    ):
        super().__init__(large_model=large_model)
        check_choice(layers, "layers", LAYERS)
        check_choice(precision, "precision", PRECISIONS)
        check_int(batch_tokens, "batch_tokens", least=1)
        is_pair = isinstance(model, tuple | list)
        self._model = tuple(map(os.fspath, model)) if is_pair else os.fspath(model)
        self._layers = layers
        self._precision = precision
        self._batch_tokens = batch_tokens
        if not is_pair and not is_remote(self._model):
            self._exported_version(self._model)

    def load_model(self) -> SentenceModel:
        if isinstance(self._model, tuple):
            options, weights = self._model
            with _readable(options) as options, _readable(weights) as weights:
                return self._load((options, weights))
        with _readable(self._model) as path:
            return self._load(path)

    def run_inference(
        self,
        batch: Sequence[Sentence],
        model: SentenceModel,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[PredictionResult]:
        """Gives one result a sentence, in the order of the batch."""
        vectors = model.vectors(list(map(_tokens, batch)))
        for sentence, array in zip(batch, vectors, strict=True):
            yield PredictionResult(sentence, array)

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        """Batches by the number of their tokens, so that memory is bounded."""
        num_tokens = _BATCHES * self._batch_tokens

        def size(sentence: Sentence) -> int:
            # Of a larger one, BatchElements would make an empty batch and then its own.
            return min(num_tokens, len(_tokens(sentence)) + 2)

        return {
            "min_batch_size": num_tokens,
            "max_batch_size": num_tokens,
            "element_size_fn": size,
        }

    def get_num_bytes(self, batch: Sequence[Sentence]) -> int:
        """Bytes of the tokens."""
        return sum(len(token) for sentence in batch for token in _tokens(sentence))

    def get_metrics_namespace(self) -> str:
        return "BeamML_elmo_tf"

    def update_model_path(self, model_path: str | None = None) -> None:
        """Makes workers load another model, as Beam asks when it watches for newer ones."""
        self._model = model_path or self._model

    def _load(self, path: Any) -> SentenceModel:
        version = None if isinstance(path, tuple) else self._exported_version(path)
        if version is not None:
            return SentenceModel(ExportedEmbedder(version, self._layers, self._batch_tokens))
        return SentenceModel(Embedder(path, self._layers, self._precision, self._batch_tokens))

    def _exported_version(self, path: str) -> Any:
        version = exported_version(path)
        if version is not None and self._precision != "float32":
            raise ValueError(
                f"{version} is an exported model, whose precision was chosen when it was exported. "
                f"Received: precision={self._precision!r}. Leave it out, or name the checkpoint."
            )
        return version


class KeyedEmbeddingHandler(KeyedModelHandler):
    """The same for examples `(key, sentence)`, of which the results are `(key, result)`.

    Beam's own `KeyedModelHandler` would count a key and a sentence as a sentence of two tokens.

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
    """A context with the local path of a model; web addresses are left to `load_bilm`."""
    if path.startswith(("http://", "https://")):
        return contextlib.nullcontext(path)
    return local_tree(path)


def _tokens(sentence: Sentence) -> list[str | bytes]:
    if isinstance(sentence, bytes):
        sentence = sentence.decode("utf-8", "surrogateescape")
    return sentence.split() if isinstance(sentence, str) else list(sentence)
