"""The component `elmo` of spaCy pipelines: contextual vectors in `doc.tensor`.

spaCy imports this module for every pipeline, so TensorFlow is imported when it is needed.
"""

import functools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import elmo_tf
from elmo_tf.lazy import require_extra

_language = require_extra("spacy.language", "spacy", "The component elmo")
_util = require_extra("spacy.util", "spacy", "The component elmo")


@_language.Language.factory(
    "elmo",
    assigns=["doc.tensor", "doc.vector", "token.vector"],
    default_config={
        "model": "small-en",
        "layers": "average",
        "precision": "float32",
        "batch_tokens": 4096,
        "tokenizer": None,
    },
)
class ElmoComponent:
    """Sets `doc.tensor`, float32 (token, feature), and vectors of documents, spans and tokens.

    Each sentence of a document is read separately if its sentences are known (by `sentencizer`, a
    parser or `senter` earlier in the pipeline), else the whole document. Whitespace tokens have
    zeros. `doc.vector` is the mean over the other tokens, and `similarity` compares these vectors.
    Call `restore_vectors` for documents that were serialized.

    Args:
        nlp: the pipeline.
        name: name of the component.
        model: an argument of `load_bilm`. It is loaded when it is needed first.
        layers: "average" or "top", see `Embedder`.
        precision, batch_tokens: see `Embedder`, which checks them when the model is loaded.
        tokenizer: see `Embedder`; the vector of a token of spaCy is then the mean over its tokens.

    Raises:
        ValueError: `layers` is not allowed.
    """

    def __init__(
        self,
        nlp: Any,
        name: str,
        model: str,
        layers: str,
        precision: str,
        batch_tokens: int,
        tokenizer: str | None,
    ):
        if layers not in ("average", "top"):
            raise ValueError(f"`layers` must be one of average, top. Received: {layers!r}")
        self.name = name
        self._model: Any = model
        self._options = {"layers": layers, "precision": precision, "batch_tokens": batch_tokens}
        self._options["tokenizer"] = tokenizer

    @functools.cached_property
    def embedder(self) -> "elmo_tf.Embedder":
        """The `Embedder` that computes the vectors."""
        return elmo_tf.Embedder(self._model, **self._options)

    def __call__(self, doc: Any) -> Any:
        """Sets the vectors of one document."""
        self._set_vectors([doc])
        return doc

    def pipe(self, stream: Iterable[Any], *, batch_size: int = 128) -> Iterator[Any]:
        """Sets the vectors of documents, `batch_size` of them at once."""
        for docs in _util.minibatch(stream, batch_size):
            self._set_vectors(docs)
            yield from docs

    def _set_vectors(self, docs: list[Any]) -> None:
        sentences = [
            [token for token in sentence if not token.is_space]
            for doc in docs
            for sentence in (doc.sents if doc.has_annotation("SENT_START") else [doc])
        ]
        reader: Any = self.embedder
        if reader.tokenizer is not None:
            from elmo_tf.embedding.word_means import WordMeans

            reader = WordMeans(reader)
        arrays = reader.embed([[token.text for token in tokens] for tokens in sentences])
        for doc in docs:
            doc.tensor = np.zeros((len(doc), self.embedder.dim), np.float32)
            restore_vectors(doc)
        for tokens, array in zip(sentences, arrays, strict=True):
            if tokens:
                tokens[0].doc.tensor[[token.i for token in tokens]] = array

    def to_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()) -> None:
        """Writes the model to a directory."""
        elmo_tf.save_bilm(self.embedder.bilm, path)

    def from_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Reads the model from a directory, in place of the one that the settings name."""
        self._model = elmo_tf.load_bilm(Path(path))
        vars(self).pop("embedder", None)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Returns the model as a zip file of the files of `to_disk`."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(Path(folder, "model"))
            archive = shutil.make_archive(f"{folder}/archive", "zip", f"{folder}/model")
            return Path(archive).read_bytes()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Reads the model from the bytes of `to_bytes`, in place of the one of the settings."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "model.zip")
            file.write_bytes(data)
            return self.from_disk(file)


def restore_vectors(doc: Any) -> Any:
    """Makes the vectors of a document, its spans and its tokens those in `doc.tensor`.

    The component calls this function. Call it again after `Doc.from_bytes`, `Doc.from_docs` and
    `nlp.pipe(n_process=2)`: spaCy keeps `doc.tensor` there, but not the hooks that make `vector`
    and `similarity` use it.

    Args:
        doc: a document with the `doc.tensor` that the component has set.

    Returns:
        The same document.

    Raises:
        ValueError: `doc.tensor` has not one row for each token, as after `DocBin`, which does not
            store it.
    """
    if doc.tensor.ndim != 2 or len(doc.tensor) != len(doc):
        raise ValueError(
            f"`doc.tensor` must have one row for each of {len(doc)} tokens. Its shape is "
            f"{doc.tensor.shape}. Was the document read from a DocBin, which does not store it?"
        )
    doc.user_hooks |= {"vector": _mean_vector, "similarity": _similarity}
    doc.user_span_hooks |= {"vector": _mean_vector, "similarity": _similarity}
    doc.user_token_hooks |= {"vector": _token_vector, "similarity": _similarity}
    return doc


def _mean_vector(part: Any) -> np.ndarray:
    """The vector of a document or span: the mean over its tokens that are not whitespace."""
    tensor = part.doc.tensor
    rows = [token.i for token in part if not token.is_space]
    return tensor[rows].mean(axis=0) if rows else np.zeros(tensor.shape[1], np.float32)


def _token_vector(token: Any) -> np.ndarray:
    return token.doc.tensor[token.i]


def _similarity(one: Any, other: Any) -> float:
    """The cosine of the vectors of two documents, spans or tokens; 0 if one of them is zero."""
    norm = np.linalg.norm(one.vector) * np.linalg.norm(other.vector)
    return float(one.vector @ other.vector / norm) if norm else 0.0
