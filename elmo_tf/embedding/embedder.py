"""Sentences ─► vectors: any number of them, in batches of like lengths, in the input's order."""

import collections
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.embedding.file_jobs import FileJob
from elmo_tf.embedding.layer_choice import LAYERS, LayerChoice
from elmo_tf.embedding.long_sentences import WindowReader
from elmo_tf.embedding.outputs.vector_output import OutputOptions, mean_over_tokens
from elmo_tf.embedding.token_table import TokenTable
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.copies import copied_bilm
from elmo_tf.models.digests import model_digest
from elmo_tf.models.elmo import Elmo
from elmo_tf.models.token_rows import sentence_index
from elmo_tf.precision import PRECISIONS, usable_precision
from elmo_tf.progress import progress
from elmo_tf.text.batches import read_ahead, rounded_length, rounded_rows, sentence_batches
from elmo_tf.text.inputs import refuse_sentences_as_tokens
from elmo_tf.text.sentence_files import SentenceCount, format_of, sentence_reader
from elmo_tf.text.sentences import encode

OUTPUTS = ("sentence", "token")

Sentence = str | Sequence[str]

# Batches that are read ahead, so that sentences of like length can be put together. Of a stream
# fewer are at first, so that results come soon.
_FIRST_BATCHES_AHEAD, _BATCHES_AHEAD = 4, 8
# Tokens of a window, in which sentences longer than it are read.
_WINDOW = 512


# The process in which an `Embedder` has used TensorFlow, whose threads a fork does not copy.
_process: int | None = None


class Embedder:
    """Contextual vectors of many sentences.

    It can be pickled and copied. A copy has weights and a mix of its own, whatever becomes of the
    biLM or the `Elmo` that this one was given. Processes that use it, or another one, must be
    spawned, not forked from one that has used it.

    Args:
        bilm_or_path: a `BiLM`, an `Elmo` (for its learnt mix), or what `load_bilm` takes.
        layers: which vectors a sentence of T tokens gets: "all", (L + 1, T, dim); "top", the last
            layer, "average", the mean of all layers, or "mix", the mix of the `Elmo` (for a biLM
            the first state of one, which is the mean): (T, dim).
        precision: "float32", or "bfloat16" for products of bfloat16 with sums in float32;
            the error is in the guide on performance. Falls back, with a warning, where the
            processor has no such products. Of a `BiLM` in float32 a copy is made.
        batch_tokens: int >= 1. Tokens in a batch, with the boundaries of its sentences. Sentences
            longer than that and than 512 are read in windows, with the state carried from one to
            the next, which changes no vector.
        vocabulary: a `Vocabulary` or an iterable of tokens, encoded now and kept; None for none.
            Other tokens are spelt as they come. Changes no vector, as long as the biLM is not
            trained on.
        cache_tokens: int >= 0. Distinct tokens whose vectors are kept from batch to batch.

    Raises:
        TypeError, ValueError: an argument is none of these, or the biLM is stateful or keeps the
            boundaries.
        FileNotFoundError: there is no such checkpoint.
        RuntimeError: this process was forked from one that had used an `Embedder`. All calls that
            compute vectors raise it too.
    """

    def __init__(
        self,
        bilm_or_path: Any,
        layers: str = "all",
        precision: str = "float32",
        batch_tokens: int = 4096,
        vocabulary: Iterable[str] | None = None,
        cache_tokens: int = 50_000,
    ):
        check_choice(layers, "layers", LAYERS)
        check_choice(precision, "precision", PRECISIONS)
        check_int(batch_tokens, "batch_tokens", least=1)
        check_int(cache_tokens, "cache_tokens", least=0)
        _refuse_fork()
        precision = usable_precision(precision)
        mix = None
        if isinstance(bilm_or_path, Elmo):
            self.bilm = bilm_or_path.bilm
            mix = bilm_or_path.mixes[0] if layers == "mix" else None
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
            dtype = PRECISIONS[precision]
            self.bilm = bilm_or_path if is_bilm else load_bilm(bilm_or_path, dtype=dtype)
        if self.bilm.stateful:
            raise ValueError(
                "A stateful biLM gives vectors that depend on what it read before: load it with "
                "stateful=False."
            )
        if self.bilm.keep_boundaries:
            raise ValueError(
                "Vectors are of tokens alone: load the biLM with keep_boundaries=False."
            )
        if self.bilm.compute_dtype != precision:
            self.bilm = copied_bilm(self.bilm, PRECISIONS[precision])
        if mix is None and layers == "mix":
            mix = _built_mix(ScalarMix(), self.bilm)
        # A biLM of the caller's own may be trained on between two calls; a vocabulary says that it
        # is not.
        is_own = self.bilm is not getattr(bilm_or_path, "bilm", bilm_or_path)
        self._keeps_table = is_own or vocabulary is not None
        self.layers = layers
        self.precision = precision
        self.batch_tokens = batch_tokens
        self._prepare(mix, vocabulary or (), cache_tokens)

    def _prepare(
        self, mix: ScalarMix | None, vocabulary: Iterable[str | bytes], cache_tokens: int
    ) -> None:
        """Makes all that is neither a setting nor the biLM."""
        self._choice = LayerChoice(self.layers, self.bilm.config.lstm.num_layers + 1, mix)
        self._read_windows = WindowReader(self.bilm, self._choice, _WINDOW)
        self._table = TokenTable(self.bilm, cache_tokens, map(encode, vocabulary))
        # Rows of the table are valid until the next request: no other thread may make one before.
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        mix = self._choice.mix
        return {
            "bilm": (self.bilm.get_config(), self.bilm.get_weights()),
            "mix": None if mix is None else (mix.get_config(), mix.get_weights()),
            "layers": self.layers,
            "precision": self.precision,
            "batch_tokens": self.batch_tokens,
            "vocabulary": list(self._table.pinned),
            "cache_tokens": self._table.capacity,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if _is_forked():  # the first call says so; an error here would end a worker of a pool
            return
        _refuse_fork()
        self.layers = state["layers"]
        self.precision = usable_precision(state["precision"])
        self.batch_tokens = state["batch_tokens"]
        config, weights = state["bilm"]
        self.bilm = BiLM.from_config({**config, "dtype": PRECISIONS[self.precision]})
        self.bilm.set_weights(weights)
        self._keeps_table = True  # this biLM is its own
        mix = None
        if state["mix"] is not None:
            config, weights = state["mix"]
            mix = _built_mix(ScalarMix.from_config(config), self.bilm)
            mix.set_weights(weights)
        self._prepare(mix, state["vocabulary"], state["cache_tokens"])

    @property
    def dim(self) -> int:
        """Width of a vector: 2 · projection_dim, or half of it for the forward direction alone."""
        return self.bilm.config.output_dim

    def embed(self, sentences: Iterable[Sentence]) -> Iterator[np.ndarray]:
        """Gives one array a sentence, in the order of the input.

        Some batches are read ahead, never more, so that the input may be without end.

        Args:
            sentences: each a `str`, split where `str.split()` would, or a list of tokens. Also a
                column of a data frame, such as `df["text"]`.

        Yields:
            float32, see `layers` above. T is 0 for a sentence without tokens.

        Raises:
            TypeError: `sentences` is one string or a table, or holds something else than text.
            ValueError: an empty token, or `sentences` is an array of one column of sentences.
        """
        if isinstance(sentences, str | bytes):
            raise TypeError(
                f"`sentences` must be several sentences, not one string: {sentences!r}. Put it in "
                "a list."
            )
        _refuse_tables(sentences)
        # A list is embedded in large groups; a stream yields results earlier.
        return self._embed(sentences, first_group=int(isinstance(sentences, list | tuple)))

    def _embed(self, sentences: Iterable[Sentence], first_group: int) -> Iterator[np.ndarray]:
        for arrays in self.embed_groups(sentences, first_group):
            while arrays:
                yield arrays.popleft()

    def embed_groups(
        self, sentences: Iterable[Sentence], first_group: int = 0
    ) -> Iterator[collections.deque[np.ndarray]]:
        """The same, in groups of the sentences that are read ahead together.

        Args:
            sentences: see `embed`.
            first_group: int >= 0. Number of the first of these groups. Work that ended with group
                k goes on with k + 1, and gives what it would have given.

        Yields:
            The arrays of a group, to be taken from it: each is then forgotten.
        """
        _refuse_fork()
        numbered = (_tokens(number, item) for number, item in enumerate(sentences))
        if not self._keeps_table:
            with self._lock:
                self._table.forget()
        num_batches = _BATCHES_AHEAD if first_group else _FIRST_BATCHES_AHEAD
        while group := read_ahead(numbered, num_batches * self.batch_tokens):
            with self._lock:
                arrays = collections.deque(self._of_group(group))
            yield arrays
            num_batches = _BATCHES_AHEAD

    def _of_group(self, group: Sequence[list[bytes]]) -> list[np.ndarray]:
        """The vectors of sentences, of which those of like length are put together."""
        rows = self._table.rows(group)
        arrays: list[Any] = [None] * len(group)
        for places in sentence_batches(map(len, group), self.batch_tokens):
            batch = [rows[place] for place in places]
            for place, vectors in zip(places, self._vectors(batch), strict=True):
                arrays[place] = vectors
        return arrays

    def encode(
        self,
        sentences: Sentence | Sequence[Sentence],
        output: str = "sentence",
        normalize: bool = False,
        show_progress_bar: bool | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """Vectors of whole sentences, or of their tokens, all at once.

        Args:
            sentences: one sentence (`str`), or several, see `embed`.
            output: "sentence", the mean over a sentence's tokens (zeros if it has none), or
                "token".
            normalize: whether to scale every vector to length 1 (zeros stay zeros).
            show_progress_bar: whether to show progress; None does so on a terminal.

        Returns:
            "sentence": float32 (sentence, feature), or (sentence, layer, feature) for all layers.
            "token": a list of arrays as `embed` gives them. For one sentence (`str`), its array
            alone.
        """
        check_choice(output, "output", OUTPUTS)
        is_one = isinstance(sentences, str | bytes)
        _refuse_tables(sentences)
        batch = [sentences] if is_one else list(sentences)
        shown = sys.stderr.isatty() if show_progress_bar is None else show_progress_bar
        arrays = []
        with progress(len(batch), "embedding", "sentences", shown=shown) as meter:
            for vectors in self.embed(batch):
                if output == "sentence":
                    vectors = mean_over_tokens(vectors)
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
        *,
        format: str | None = None,
        token_column: int | None = None,
        **options: Any,
    ) -> SentenceCount:
        """Embeds a file of sentences into a file of vectors.

        Killed at any moment, the same call goes on from what is in the folder `output` +
        `.unfinished`, to the same vectors; the output appears when it is complete.

        Args:
            input: text, one tokenised sentence a line, or CoNLL columns; `.gz` is unpacked.
            output: by its suffix HDF5 (.hdf5, .h5), Parquet (.parquet, a folder), or NumPy (.npz,
                .npy); see `HDF5Output` and so on. A sentence's array is as `embed` gives it, and
                an empty line has one too.
            overwrite: whether `output` may be replaced, and unfinished work that does not fit.
            format, token_column: of the input, see `sentence_reader`. None: by its name.
            options: of the output, see `OutputOptions`; `pool="mean"` writes one vector a sentence,
                as `encode` gives it.

        Returns:
            The size of the input, and how many of its sentences are odd.

        Raises:
            FileExistsError: see `overwrite`, or another process is at it.
            ValueError: an unknown suffix, an option that the format does not have, or damaged
                input.
            OSError: a file cannot be read or written.
        """
        read = sentence_reader(input, format, token_column)
        reading = f"{format or format_of(input)}, column {token_column}"
        return FileJob(
            self, input, read, reading, output, OutputOptions(**options), overwrite
        ).run()

    def settings(self) -> dict[str, Any]:
        """All that vectors depend on: the weights, as a digest, and how they are used."""
        return {
            "model": model_digest(self.bilm, self._choice.mix_weights),
            "layers": self.layers,
            "precision": self.precision,
            "batch_tokens": self.batch_tokens,
        }

    @property
    def max_token_bytes(self) -> int | None:
        """Bytes of a token that are read, or None for all of them."""
        char_cnn = self.bilm.config.char_cnn
        return None if char_cnn is None else char_cnn.max_chars - 2  # two mark begin and end

    def _vectors(self, batch: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """The vectors of a batch of sentences, of which the rows of the tokens are known."""
        if len(batch[-1]) > max(_WINDOW, self.batch_tokens) and self._choice.is_sum:
            (rows,) = batch  # a sentence longer than a batch has one of its own
            yield self._read_windows(self._table.vectors(sentence_index(batch, 1, len(rows))[0]))
            return
        num_rows, width = rounded_rows(len(batch)), rounded_length(len(batch[-1]))
        lengths = np.zeros(num_rows, np.int32)
        lengths[: len(batch)] = [len(rows) for rows in batch]
        index = sentence_index(batch, num_rows, width)
        found = self._batch_vectors(self._table.vectors(index), lengths).numpy()
        for rows, vectors in zip(batch, found, strict=False):
            yield np.ascontiguousarray(vectors[..., : len(rows), :])

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None, None), tf.float32),
            tf.TensorSpec((None,), tf.int32),
        ],
        autograph=False,
    )
    def _batch_vectors(self, vectors: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        vectors = tf.ensure_shape(vectors, (None, None, self.bilm.config.lstm.projection_dim))
        mask = tf.sequence_mask(lengths + 2, tf.shape(vectors)[1])
        outputs = self.bilm.layers_of_vectors(tf.cast(vectors, self.bilm.compute_dtype), mask)
        layers = tf.cast(outputs["layers"], tf.float32)  # (batch, layer, token, feature)
        return self._choice(layers, outputs["mask"])


def _is_forked() -> bool:
    return _process not in (None, os.getpid())


def _refuse_fork() -> None:
    """Raises `RuntimeError` where TensorFlow would wait for ever for threads of another process."""
    global _process
    if _is_forked():
        raise RuntimeError(
            "This process was forked from one that had used an Embedder, and TensorFlow does not "
            "work after a fork. Start processes in another way: "
            'multiprocessing.get_context("spawn"), or joblib with its default backend, loky.'
        )
    _process = os.getpid()


def _built_mix(mix: ScalarMix, bilm: BiLM) -> ScalarMix:
    mix.build((None, bilm.config.lstm.num_layers + 1, None, None))
    return mix


def _refuse_tables(sentences: Any) -> None:
    """Refuses what a user takes for a column of sentences, and iteration does not."""
    if isinstance(sentences, Mapping) or hasattr(sentences, "columns"):
        raise TypeError(
            "`sentences` must be sentences, not a table, which would give the names of its "
            'columns. Pass one column, for example df["text"]. '
            f"Received: {type(sentences).__name__}"
        )
    refuse_sentences_as_tokens(sentences)


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
