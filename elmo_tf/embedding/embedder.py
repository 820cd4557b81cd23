"""Sentences ─► vectors, in input order; many sentences are read together."""

import math
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from elmo_tf.checkpoints.load import known_text
from elmo_tf.embedding import file_jobs
from elmo_tf.embedding.group_reader import GroupReader
from elmo_tf.embedding.vector_files import OutputOptions
from elmo_tf.embedding.vectors import (
    EmbeddedText,
    bilm_and_mix,
    check_layers,
    embedded_texts,
    mean_over_tokens,
    unit_vectors,
    with_precision,
)
from elmo_tf.logs import progress
from elmo_tf.models.copies import model_digest
from elmo_tf.portability import require_tensorflow
from elmo_tf.processors import (
    PRECISIONS,
    is_forked,
    refuse_fork,
    share_cores_for_embedding,
    usable_precision,
)
from elmo_tf.text.batches import BATCHES_AHEAD, read_ahead
from elmo_tf.text.counting import TextCount, reported_sentences
from elmo_tf.text.inputs import Sentence, token_lists
from elmo_tf.text.tokenizers import Tokenizer, tokenizer_of

# Maximum memory for the vectors of long sentences that are read ahead, in bytes.
_GROUP_MEMORY = 2**29


class Embedder:
    """Computes contextual vectors for any number of sentences.

    An `Embedder` is thread-safe, and can be pickled and copied. A copy has its own weights and mix,
    independent of the original biLM or `Elmo`. Spawn processes that use an `Embedder`: TensorFlow
    does not work in a process forked from one that has used it.

    Args:
        bilm_or_path: a `BiLM`, an `Elmo` (for its learned mix), or an argument of `load_bilm`.
        layers: the vectors of a sentence of T tokens. "all": all layers, (L + 1, T, dim). "concat":
            all layers side by side, (T, (L + 1) · dim). "top": the last layer; a number: that
            layer, from 0; "average" and "sum": the mean and the sum of all layers; "mix": the mix
            of the `Elmo` (for a biLM, an untrained mix, which is the mean); each (T, dim). Defaults
            to None: "average" in `encode` and `similarity`, "all" in `embed` and `embed_file`.
        precision: "float32", or "bfloat16" for bfloat16 matrix products with float32 sums, which
            falls back to "float32" with a warning on processors without bfloat16 instructions.
            Defaults to "float32".
        batch_tokens: int >= 1. Tokens per batch. Defaults to 4096.
        tokenizer: for raw text: the code of a language, such as "en" or "ko" (see
            `LanguageTokenizer`); "model", that of the model's training text; or a function from a
            text to its sentences, lists of `Token`.
            Every `str` is then a text of any number of sentences, and its vectors are those of all
            its tokens. Defaults to None: a `str` is a sentence, split as by `str.split()`.

    Raises:
        ValueError: an argument is not allowed, or the biLM is stateful or has keep_boundaries=True.
        FileNotFoundError: there is no such checkpoint.
        RuntimeError: this process was forked from one that had loaded a model. All methods
            that compute vectors raise it too.

    Example:
        >>> embedder = elmo_tf.Embedder("small-en")
        >>> [vectors.shape for vectors in embedder.embed(["I like it", "Yes"])]
        [(3, 3, 384), (3, 1, 384)]
    """

    def __init__(
        self,
        bilm_or_path: Any,
        layers: str | int | None = None,
        precision: str = "float32",
        batch_tokens: int = 4096,
        tokenizer: str | Tokenizer | None = None,
    ):
        require_tensorflow("An Embedder")
        if precision not in PRECISIONS:
            raise ValueError(
                f"`precision` must be one of {', '.join(PRECISIONS)}. Received: {precision!r}"
            )
        if batch_tokens < 1:
            raise ValueError(f"`batch_tokens` must be at least 1. Received: {batch_tokens}")
        self._averages = layers is None
        layers = "all" if layers is None else layers
        check_layers(layers)
        refuse_fork()
        share_cores_for_embedding()
        self.layers = layers
        self.precision = usable_precision(precision)
        self.batch_tokens = batch_tokens
        self.bilm, self._mix = bilm_and_mix(bilm_or_path, layers, self.precision)
        self.tokenizer = tokenizer_of(tokenizer, self.bilm.config.tokenizer)
        check_layers(layers, self.num_layers)
        # Callers may train their own biLM between two calls.
        self._keeps_table = self.bilm is not getattr(bilm_or_path, "bilm", bilm_or_path)
        self._prepare()

    def _prepare(self) -> None:
        """Makes what is not part of a pickle."""
        self.known_text = known_text(self.bilm)
        self._lock = threading.Lock()  # rows of the table are valid until its next request
        self._read_group = GroupReader(self.bilm, self.layers, self._mix, self.batch_tokens)

    @property
    def dim(self) -> int:
        """Width of a vector: that of a layer, or for "concat" that of all layers together."""
        return self.bilm.config.output_dim * (self.num_layers if self.layers == "concat" else 1)

    @property
    def num_layers(self) -> int:
        """Number of layers of the biLM, layer 0 included."""
        return self.bilm.config.lstm.num_layers + 1

    def encode(
        self,
        sentences: Sentence | Sequence[Sentence],
        output: str = "sentence",
        normalize: bool = False,
        show_progress_bar: bool | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """Returns the vectors of sentences or of their tokens.

        Args:
            sentences: one sentence (`str`), or several, see `embed`.
            output: "sentence" (default), the mean over the tokens of a sentence, zeros without
                tokens; or "token".
            normalize: whether to scale each vector to length 1 (zeros stay zeros).
            show_progress_bar: whether to show progress. None shows it on a terminal.

        Returns:
            "sentence": float32 (sentence, feature), or (sentence, layer, feature) for
            `layers="all"`. "token": a list of arrays, (T, feature) or see `embed`. For one sentence
            (`str`), only its array.

        Example:
            >>> embedder.encode(["The bank raised its rates .", "I like it ."]).shape
            (2, 384)
        """
        if output not in ("sentence", "token"):
            raise ValueError(f"`output` must be one of sentence, token. Received: {output!r}")
        is_single = isinstance(sentences, str | bytes)
        batch = list(token_lists([sentences] if is_single else sentences, keep_text=True))
        shown = sys.stderr.isatty() if show_progress_bar is None else show_progress_bar
        arrays = []
        with progress(len(batch), "embedding", "sentences", shown=shown) as meter:
            for vectors in self.embed(batch):  # (…, token, feature)
                if output == "sentence":
                    vectors = mean_over_tokens(vectors)  # (…, feature)
                if self._averages:
                    vectors = vectors.mean(axis=0)  # over the layers
                arrays.append(unit_vectors(vectors) if normalize else vectors)
                meter.update(1)
        if is_single:
            return arrays[0]
        if output == "token":
            return arrays
        return np.stack(arrays) if arrays else np.zeros((0, *self._sentence_shape), np.float32)

    @property
    def _sentence_shape(self) -> tuple[int, ...]:
        """Shape of the vector of a sentence, as `encode` returns it."""
        return (self.dim,) if self._averages else self.array_shape("mean")

    def array_shape(self, pool: str = "none") -> tuple[int | None, ...]:
        """Shape of an array, with None for its tokens. `pool`: see `OutputOptions`."""
        layers = (self.num_layers,) if self.layers == "all" else ()
        tokens = (None,) if pool == "none" else ()
        return (*layers, *tokens, self.dim)

    def similarity(
        self, a: Sequence[Sentence] | np.ndarray, b: Sequence[Sentence] | np.ndarray
    ) -> np.ndarray:
        """Returns the cosine of each of n sentences of `a` and each of m of `b`, float32 (n, m).

        It is 0 if a sentence has no tokens. With `layers="all"`, layers are concatenated.

        Args:
            a, b: sentences, see `encode`, or their vectors, float (n, …). A `str`, or its vector,
                is one row.

        Example:
            >>> embedder.similarity("I like it .", ["You like it .", "The bank ."]).shape
            (1, 2)
        """
        return self._units(a) @ self._units(b).T

    def _units(self, items: Sequence[Sentence] | np.ndarray) -> np.ndarray:
        """The vectors of sentences, scaled to length 1, float32 (sentence, feature)."""
        if not isinstance(items, np.ndarray) or items.dtype.kind != "f":
            items = self.encode([items] if isinstance(items, str | bytes) else items)
        if items.ndim == 1 or items.shape == self._sentence_shape:
            items = items[np.newaxis]
        return unit_vectors(items.reshape(len(items), math.prod(items.shape[1:])))

    def embed(self, sentences: Iterable[Sentence]) -> Iterator[np.ndarray]:
        """Yields one array per sentence, in input order.

        Reads a bounded number of sentences ahead, so the input may be infinite.

        Args:
            sentences: any iterable, see `token_lists`, also for errors. Each is a `str`, split as
                by `str.split()` or by the `tokenizer`, or a list of tokens.

        Yields:
            float32, see `layers` of the constructor. T is 0 for a sentence without tokens.
        """
        if self.tokenizer is None:
            return self._embed(token_lists(sentences))
        texts = token_lists(sentences, keep_text=True)
        return (text.vectors for text in embedded_texts(texts, self.tokenizer, self._embed))

    def embed_texts(self, texts: Iterable[Sentence]) -> Iterator[EmbeddedText]:
        """Yields the tokens of raw texts with their offsets and vectors, see `EmbeddedText`.

        Args:
            texts: strings, which the `tokenizer` splits; lists of tokens are taken as they are.

        Raises:
            TypeError: see `token_lists`.
            ValueError: the `Embedder` has no tokenizer.
        """
        texts = token_lists(texts, "texts", keep_text=True)
        if self.tokenizer is None:
            raise ValueError("This Embedder has no tokenizer: Embedder(…, tokenizer='en').")
        return embedded_texts(texts, self.tokenizer, self._embed)

    def _embed(self, sentences: Iterator[list[str]]) -> Iterator[np.ndarray]:
        """Embeds lists of tokens in groups."""
        self._forget_tokens()
        sentences = reported_sentences(sentences, self.known_text)
        while group := self.next_group(sentences, len):
            yield from self.embed_group(group)

    def _forget_tokens(self) -> None:
        refuse_fork()
        if not self._keeps_table:
            with self._lock:
                self._read_group.table.forget()

    def next_group(self, sentences: Iterator, length: Callable[[Any], int]) -> list:
        """Takes the sentences, of any type, that are embedded together; see `read_ahead`."""
        num_arrays = self.num_layers if self.layers == "all" else 1
        most_tokens = _GROUP_MEMORY // (4 * num_arrays * self.dim)
        return read_ahead(sentences, BATCHES_AHEAD * self.batch_tokens, length, most_tokens)

    def embed_group(self, sentences: Sequence[list[str]]) -> list[np.ndarray]:
        """Returns the arrays of `embed` for the lists of tokens of a group, in memory."""
        with self._lock:
            return self._read_group(sentences)

    def embed_file(
        self,
        input: str | os.PathLike,
        output: str | os.PathLike,
        overwrite: bool = False,
        *,
        format: str | None = None,
        token_column: int | None = None,
        on_invalid: Literal["error", "skip"] = "error",
        **options: Any,
    ) -> TextCount:
        """Embeds a file of sentences and writes the vectors to a file.

        If the run is interrupted, call `embed_file` again with the same arguments: it resumes from
        the folder `output` + `.unfinished`, with the same vectors. The output appears when it is
        complete.

        Args:
            input: text with one tokenized sentence per line, CoNLL columns, or FASTA. `.gz` is
                unpacked. With a `tokenizer`, raw text: every line may have any number of sentences,
                and the file `output` + `.tokens.jsonl` has the line, the tokens and their offsets
                for each array.
            output: HDF5 (.hdf5, .h5), Parquet (.parquet, a folder), or for `pool="mean"` one NumPy
                array (.npy), chosen by the suffix; see `HDF5File` and so on. Every sentence has an
                array as from `embed`, and so does an empty line.
            overwrite: whether to replace an existing output, or unfinished work of another job.
            format, token_column, on_invalid: see `sentence_reader`.
            **options: see `OutputOptions`.

        Returns:
            The size of the input, and the number of its unusual sentences.

        Raises:
            FileExistsError: see `overwrite`, or another process writes this output.
            ValueError: the output does not support an option, or the input is damaged.
            OSError: a file cannot be read or written.

        Example:
            >>> embedder.embed_file("text.txt", "vectors.hdf5").sentences
            40
        """
        self._forget_tokens()
        reading = {"format": format, "token_column": token_column, "on_invalid": on_invalid}
        options = OutputOptions(**options)
        return file_jobs.embed_file(self, input, output, overwrite, options, **reading)

    def settings(self) -> dict[str, Any]:
        """Everything that the vectors depend on."""
        return {
            "model": model_digest(self.bilm, self._mix.weights if self._mix else ()),
            "layers": self.layers,
            "precision": self.precision,
            "batch_tokens": self.batch_tokens,
        }

    def __getstate__(self) -> dict[str, Any]:
        names = ("layers", "batch_tokens", "precision", "tokenizer", "_averages")
        # As bytes, because a forked process cannot load them.
        models = pickle.dumps((self.bilm, self.bilm.source, self._mix))
        return {**{name: getattr(self, name) for name in names}, "_models": models}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _keeps_table=True)  # no caller can train this biLM
        if is_forked():  # the first call raises the error; here it would end a worker of a pool
            return
        self.precision = usable_precision(self.precision)
        bilm, bilm.source, self._mix = pickle.loads(vars(self).pop("_models"))
        self.bilm = with_precision(bilm, self.precision)
        self._prepare()
