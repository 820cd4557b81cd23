"""Sentences ─► vectors: any number of them, in batches of like lengths, in the input's order."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import h5py
import numpy as np
import tensorflow as tf
from absl import logging

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.files import atomic_file
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.progress import progress
from elmo_tf.text.batches import length_batches, rounded_length, rounded_rows
from elmo_tf.text.sentences import encode
from elmo_tf.text.vocabulary import read_lines

LAYERS = ("all", "top", "average", "mix")
PRECISIONS = ("float32",)
OUTPUTS = ("sentence", "token")

Sentence = str | Sequence[str]

# Batches that are read ahead, so that sentences of like length can be put together.
_BATCHES_AHEAD = 16


class Embedder:
    """Contextual vectors of many sentences.

    Args:
        bilm_or_path: a `BiLM`, an `Elmo` (for its learnt mix), or what `load_bilm` takes.
        layers: which vectors a sentence of T tokens gets: "all", (L + 1, T, dim); "top", the last
            layer, "average", the mean of all layers, or "mix", the mix of the `Elmo` (for a biLM
            the first state of one, which is the mean): (T, dim).
        precision: "float32".
        batch_tokens: int >= 1. Tokens in a batch, padding included. A longer sentence is a batch
            of its own.

    Raises:
        TypeError, ValueError: an argument is none of these, or the biLM is stateful or keeps the
            boundaries.
        FileNotFoundError: there is no such checkpoint.
    """

    def __init__(
        self,
        bilm_or_path: Any,
        layers: str = "all",
        precision: str = "float32",
        batch_tokens: int = 4096,
    ):
        _check_choice("layers", layers, LAYERS)
        _check_choice("precision", precision, PRECISIONS)
        if batch_tokens < 1:
            raise ValueError(f"`batch_tokens` must be at least 1. Received: {batch_tokens}")
        self._mix = None
        if isinstance(bilm_or_path, Elmo):
            self.bilm = bilm_or_path.bilm
            self._mix = bilm_or_path.mixes[0]
            if bilm_or_path.num_mixes > 1 and layers == "mix":
                raise ValueError(
                    f"An Elmo with one mix is needed. Received: num_mixes={bilm_or_path.num_mixes}"
                )
            if bilm_or_path.top_only and layers == "mix":
                raise ValueError('This Elmo has no mix (top_only=True): ask for layers="top".')
            if not bilm_or_path.built:
                bilm_or_path.build()
            if bilm_or_path.layer_norm and layers == "mix":
                logging.warning(
                    "The mix normalises each layer over the whole batch (layer_norm=True), so a "
                    "sentence's vectors depend on the sentences beside it."
                )
        else:
            is_bilm = isinstance(bilm_or_path, BiLM)
            self.bilm = bilm_or_path if is_bilm else load_bilm(bilm_or_path)
        if self.bilm.compute_dtype != precision:
            raise ValueError(
                f"The biLM computes in {self.bilm.compute_dtype}, not in {precision}: load it with "
                "that dtype."
            )
        if self.bilm.stateful:
            raise ValueError(
                "A stateful biLM gives vectors that depend on what it read before: load it with "
                "stateful=False."
            )
        if self.bilm.keep_boundaries:
            raise ValueError(
                "Vectors are of tokens alone: load the biLM with keep_boundaries=False."
            )
        if self._mix is None and layers == "mix":
            self._mix = ScalarMix()
            self._mix.build((None, self.bilm.config.lstm.num_layers + 1, None, None))
        self.layers = layers
        self.precision = precision
        self.batch_tokens = batch_tokens

    @property
    def dim(self) -> int:
        """Width of a vector: 2 · projection_dim, or half of it for the forward direction alone."""
        return self.bilm.config.output_dim

    def embed(self, sentences: Iterable[Sentence]) -> Iterator[np.ndarray]:
        """Gives one array a sentence, in the order of the input.

        Some batches are read ahead, never more, so that the input may be without end.

        Args:
            sentences: each a `str`, split where `str.split()` would, or a list of tokens.

        Yields:
            float32, see `layers` above. T is 0 for a sentence without tokens.

        Raises:
            TypeError: `sentences` is one string, or holds something else than text.
            ValueError: an empty token.
        """
        if isinstance(sentences, str | bytes):
            raise TypeError(
                f"`sentences` must be several sentences, not one string: {sentences!r}. Put it in "
                "a list."
            )
        return self._embed(sentences)

    def _embed(self, sentences: Iterable[Sentence]) -> Iterator[np.ndarray]:
        numbered = (_tokens(number, item) for number, item in enumerate(sentences))
        while group := self._read_ahead(numbered):
            arrays: list[Any] = [None] * len(group)
            for rows in length_batches([len(tokens) for tokens in group], self.batch_tokens):
                lengths = [len(group[row]) for row in rows]
                vectors = self._vectors(*_padded([group[row] for row in rows])).numpy()
                for row, length, vector in zip(rows, lengths, vectors, strict=False):
                    arrays[row] = np.ascontiguousarray(vector[..., :length, :])
            yield from arrays

    def encode(
        self,
        sentences: Sentence | Sequence[Sentence],
        output: str = "sentence",
        normalize: bool = False,
        show_progress_bar: bool | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """Vectors of whole sentences, or of their tokens, all at once.

        Args:
            sentences: one sentence (`str`), or a list of sentences or of token lists.
            output: "sentence", the mean over a sentence's tokens (zeros if it has none), or
                "token".
            normalize: whether to scale every vector to length 1 (zeros stay zeros).
            show_progress_bar: whether to show progress; None does so on a terminal.

        Returns:
            "sentence": float32 (sentence, feature), or (sentence, layer, feature) for all layers.
            "token": a list of arrays as `embed` gives them. For one sentence (`str`), its array
            alone.
        """
        _check_choice("output", output, OUTPUTS)
        is_one = isinstance(sentences, str | bytes)
        batch = [sentences] if is_one else list(sentences)
        shown = sys.stderr.isatty() if show_progress_bar is None else show_progress_bar
        arrays = []
        with progress(len(batch), "embedding", "sentences", shown=shown) as meter:
            for vectors in self.embed(batch):
                if output == "sentence":
                    vectors = vectors.sum(axis=-2) / max(1, vectors.shape[-2])
                if normalize:
                    norm = np.linalg.norm(vectors, axis=-1, keepdims=True)
                    vectors = vectors / np.where(norm > 0, norm, 1)
                arrays.append(vectors)
                meter.update(1)
        if is_one:
            return arrays[0]
        if output == "token":
            return arrays
        shape = (self.bilm.config.lstm.num_layers + 1,) if self.layers == "all" else ()
        return np.stack(arrays) if arrays else np.zeros((0, *shape, self.dim), np.float32)

    def embed_file(
        self,
        input: str | os.PathLike,
        output: str | os.PathLike,
        overwrite: bool = False,
    ) -> None:
        """Embeds a text file, one tokenised sentence a line, into an HDF5 file.

        Args:
            input: the text; `.gz` is unpacked.
            output: gets one dataset a line, named by its number from 0, with an array as `embed`
                gives it. It appears when it is complete.
            overwrite: whether `output` may be replaced.

        Raises:
            FileExistsError: `output` exists and `overwrite` is false.
            OSError: a file cannot be read or written.
        """
        num_lines = sum(1 for _ in read_lines(input))
        with (
            atomic_file(output, overwrite) as part,
            h5py.File(part, "w") as file,
            progress(num_lines, "embedding", "sentences") as meter,
        ):
            for number, vectors in enumerate(self.embed(read_lines(input))):
                file.create_dataset(str(number), data=vectors)
                meter.update(1)

    def _read_ahead(self, sentences: Iterator[list[bytes]]) -> list[list[bytes]]:
        group, num_tokens = [], 0
        for tokens in sentences:
            group.append(tokens)
            num_tokens += len(tokens) + 1
            if num_tokens >= _BATCHES_AHEAD * self.batch_tokens:
                break
        return group

    @tf.function(
        input_signature=[tf.TensorSpec((None, None), tf.string), tf.TensorSpec((None,), tf.int32)],
        autograph=False,
    )
    def _vectors(self, tokens: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        outputs = self.bilm(tokens, lengths=lengths)
        layers = outputs["layers"]  # (batch, layer, token, feature)
        if self.layers == "all":
            return layers
        if self.layers == "top":
            return layers[:, -1]
        if self.layers == "average":
            return tf.reduce_mean(layers, axis=1)
        return self._mix(layers, mask=outputs["mask"])


def _tokens(number: int, sentence: Any) -> list[bytes]:
    if isinstance(sentence, bytes):
        sentence = sentence.decode("utf-8", "surrogateescape")
    if isinstance(sentence, str):
        return [encode(token) for token in sentence.split()]
    if not isinstance(sentence, list | tuple | np.ndarray) or not all(
        isinstance(token, str | bytes) for token in sentence
    ):
        raise TypeError(
            "A sentence must be a str or a list of tokens (str). "
            f"Sentence {number} is {sentence!r}."
        )
    tokens = [encode(token) for token in sentence]
    if b"" in tokens:
        raise ValueError(f"Sentence {number} holds an empty token: {sentence!r}.")
    return tokens


def _padded(sentences: list[list[bytes]]) -> tuple[tf.Tensor, tf.Tensor]:
    """String (batch, token) and lengths, both axes rounded up."""
    num_rows = rounded_rows(len(sentences))
    sentences = [*sentences, *itertools.repeat([], num_rows - len(sentences))]
    lengths = [len(tokens) for tokens in sentences]
    width = rounded_length(max(lengths))
    values = tf.constant([token for tokens in sentences for token in tokens], tf.string)
    ragged = tf.RaggedTensor.from_row_lengths(values, lengths)
    tokens = ragged.to_tensor("", shape=(num_rows, width))
    return tokens, tf.constant(lengths, tf.int32)


def _check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {', '.join(allowed)}. Received: {value!r}")
