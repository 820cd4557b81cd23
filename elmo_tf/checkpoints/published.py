"""Loading and saving of `options.json` with HDF5 or safetensors: published files and elmo_tf's."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import keras
import numpy as np

from elmo_tf.checkpoints.formats import (
    EMBEDDINGS_FILE,
    OPTIONS_FILE,
    SOFTMAX_FILE,
    TOKEN_TABLE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    Checkpoint,
    LocalPath,
    Source,
    in_all_formats,
    matches,
    newest,
)
from elmo_tf.checkpoints.manylangs import ENCODER_FILE, TOKEN_EMBEDDER_FILE
from elmo_tf.checkpoints.weight_files import (
    FORMATS,
    WEIGHT_PATTERNS,
    WeightRule,
    read_weights,
    softmax_variables,
    variables_by_path,
    write_weights,
)
from elmo_tf.config import NUM_CHARACTERS, BiLMConfig
from elmo_tf.files import write_json
from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.copies import refuse_adapted
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE

# Dtypes of weight files.
DTYPES = ("float32", "float16")

_ARRAY_FILES = (WEIGHTS_FILE, EMBEDDINGS_FILE, SOFTMAX_FILE)
# Files that `save_language_model` may write.
FILES = (
    *(OPTIONS_FILE, VOCABULARY_FILE, CHARACTERS_FILE, WORDS_FILE),
    *(path.name for name in _ARRAY_FILES for path in in_all_formats(Path(name))),
)

_OPTIONS = f"*{OPTIONS_FILE}"
_ANY_WEIGHTS = ("*.hdf5", "*.h5", "*.safetensors")
# What the names of arrays begin with.
_ENCODER_ARRAYS = ("word_embed", "char_embed", "CNN", "embedding")
_ALL_ARRAYS = (*_ENCODER_ARRAYS, "RNN", "initial_state")
# Names of files, without suffix, that are never the weights.
_OTHER_ARRAYS = (Path(EMBEDDINGS_FILE).stem, Path(SOFTMAX_FILE).stem)


class PublishedCheckpoint(Checkpoint):
    """A directory with one `*options.json` and one file of weights, or a pair of these files.

    The directory may also hold `token_embeddings.hdf5`, `softmax.hdf5` and `vocab.txt`.
    """

    patterns = (_OPTIONS, *_ANY_WEIGHTS, VOCABULARY_FILE, CHARACTERS_FILE, WORDS_FILE)
    replaces_characters = True

    def __init__(self, path: LocalPath, shown: Source):
        super().__init__(path, shown)
        if isinstance(path, tuple):
            options, self._weights = path
            self._softmax_file = None  # these files may come from different directories
        else:
            options = _only(matches(path, [_OPTIONS]), [_OPTIONS], shown)
            self._weights = _weights_in(path, shown)
            self._softmax_file = newest(in_all_formats(path / SOFTMAX_FILE))
        self.has_softmax = self._softmax_file is not None
        self.config = BiLMConfig.from_options(options)

    @classmethod
    def recognizes(cls, path: LocalPath) -> bool:
        return isinstance(path, tuple) or (path.is_dir() and bool(matches(path, [_OPTIONS])))

    def read_weights(self, config: BiLMConfig) -> dict[str, np.ndarray]:
        if config.char_cnn is not None:
            return read_weights(self._weights, weight_rules(config))
        file = newest(in_all_formats(self._weights.parent / EMBEDDINGS_FILE))
        file = self.token_embeddings or file or self._weights
        # The files may also contain the weights of the character CNN.
        table = read_weights(file, token_embedding_rules(config), _ALL_ARRAYS)
        return table | read_weights(self._weights, weight_rules(config), _ENCODER_ARRAYS)

    def read_softmax(self) -> dict[str, np.ndarray]:
        rules = softmax_rules(self.config.lstm.projection_dim)
        if self.config.tie_softmax:  # `W` is the table of the biLM
            return read_weights(self._softmax_file, rules[1:], ("W",))
        return read_weights(self._softmax_file, rules)


def _weights_in(folder: Path, shown: Source) -> Path:
    """The weights; the message of an error names `shown`."""
    by_format = [[name for name in WEIGHT_PATTERNS if name.endswith(end)] for end in FORMATS]
    present = [patterns for patterns in by_format if matches(folder, patterns)]
    if not present:
        # A file with any other name, unless several could be the weights.
        files = matches(folder, _ANY_WEIGHTS)
        files = [file for file in files if file.stem not in _OTHER_ARRAYS]
        return _only(files, WEIGHT_PATTERNS, shown)
    files = [_only(matches(folder, patterns), patterns, shown) for patterns in present]
    return newest(files) or files[0]  # which is a broken link


def _only(files: Sequence[Path], patterns: Sequence[str], shown: Source) -> Path:
    if len(files) == 1:
        return files[0]
    wanted = " or ".join(patterns)
    if not files:
        raise FileNotFoundError(f"There is no {wanted} in {shown}.")
    raise ValueError(
        f"{shown} must contain one {wanted}, not {len(files)}: "
        f"{', '.join(file.name for file in files)}. Pass the pair (options, weights)."
    )


def save_bilm(
    bilm: BiLM, directory: str | os.PathLike, format: str = "hdf5", dtype: str = "float32"
) -> None:
    """Writes `options.json` and `weights.hdf5` (or `weights.safetensors`).

    For a biLM without a character CNN, also `token_embeddings.hdf5` and, if it has a vocabulary,
    `vocab.txt`; for a biLM with a lexicon, `char.dic` and `word.dic`. Existing files are replaced
    atomically, and weights in the other format removed.
    The state of `warm_start` is the array `initial_state` (direction, layer, projection_dim + dim),
    which other implementations ignore.

    Args:
        bilm: a `BiLM`.
        directory: created if missing.
        format: "hdf5", which the original and AllenNLP read, or "safetensors", with the same
            names.
        dtype: "float32", or "float16" for files of half the size. `load_bilm` reads both; other
            implementations may not read float16.

    Raises:
        OSError: the files cannot be written, or the directory holds another checkpoint, with other
            file names.
        ValueError: unknown `format` or `dtype`, a weight is out of its range, or the biLM has
            quantized or LoRA weights.
        ImportError: the package safetensors is not installed.

    Example:
        >>> elmo_tf.save_bilm(elmo_tf.load_bilm("small-en"), "copy", dtype="float16")
        >>> elmo_tf.load_bilm("copy").config.output_dim
        384
    """
    if dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {', '.join(DTYPES)}. Received: {dtype!r}")
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}")
    refuse_adapted(bilm)
    directory = Path(directory)
    foreign = (ENCODER_FILE, TOKEN_EMBEDDER_FILE, "*.index")
    others = matches(directory, [_OPTIONS, *WEIGHT_PATTERNS, *foreign])
    if others := [file.name for file in others if file.name not in FILES]:
        raise FileExistsError(
            f"{directory} holds a file of another checkpoint: {', '.join(others)}."
        )
    variables = variables_by_path(bilm)
    _write(directory / WEIGHTS_FILE, weight_rules(bilm.config), variables, dtype, format)
    if bilm.config.char_cnn is None:
        rules = token_embedding_rules(bilm.config)
        _write(directory / EMBEDDINGS_FILE, rules, variables, dtype, format)
        if bilm.vocabulary is not None:
            bilm.vocabulary.save(directory / VOCABULARY_FILE)
    if bilm.lexicon is not None:
        bilm.lexicon.save(directory)
    write_json(directory / OPTIONS_FILE, bilm.config.to_options())


def save_softmax(
    softmax: SampledSoftmax,
    directory: str | os.PathLike,
    format: str = "hdf5",
    dtype: str = "float32",
) -> None:
    """Writes `softmax.hdf5`: `W`, even if it is also the embedding table, and `b`."""
    path, rules = Path(directory) / SOFTMAX_FILE, softmax_rules(softmax.kernel.shape[1])
    _write(path, rules, softmax_variables(softmax), dtype, format)


def save_language_model(
    model: LanguageModel, directory: str | os.PathLike, format: str = "hdf5", dtype: str = "float32"
) -> None:
    """Writes the files of a language model, for `load_language_model`; see `save_bilm`."""
    save_bilm(model.bilm, directory, format, dtype)
    save_softmax(model.softmax, directory, format, dtype)
    model.vocabulary.save(Path(directory) / VOCABULARY_FILE)


def _write(
    path: Path,
    rules: Iterable[WeightRule],
    variables: dict[str, keras.Variable],
    dtype: str,
    format: str,
) -> None:
    """Writes a weight file, and removes the one of the other format."""
    write_weights(path.with_suffix(f".{format}"), rules, variables, dtype)
    for other in {*FORMATS} - {format}:
        path.with_suffix(f".{other}").unlink(missing_ok=True)


def weight_rules(config: BiLMConfig) -> Iterator[WeightRule]:
    """Yields the table of `weights.hdf5`: that of the published files, and `initial_state`."""
    if config.char_cnn is not None:
        yield from _char_cnn_rules(config)
    yield from _lstm_rules(config)
    lstm = config.lstm
    shape = (config.num_directions, lstm.num_layers, sum(lstm.state_sizes))
    yield WeightRule("initial_state", ("initial_state",), shape, is_optional=True)


def token_embedding_rules(config: BiLMConfig) -> list[WeightRule]:
    """Returns the table of `token_embeddings.hdf5`."""
    shape = (None, config.lstm.projection_dim)
    return [WeightRule("embedding", (TOKEN_TABLE,), shape)]


def softmax_rules(projection_dim: int) -> list[WeightRule]:
    """Returns the table of `softmax.hdf5`, for the variables of a `SampledSoftmax`."""
    return [WeightRule("W", ("W",), (None, projection_dim)), WeightRule("b", ("b",), (None,))]


def _char_cnn_rules(config: BiLMConfig) -> Iterator[WeightRule]:
    cnn, dim = config.char_cnn, config.lstm.projection_dim
    num_characters, word_dim = NUM_CHARACTERS, 0
    if cnn.lexicon is not None:
        num_characters, word_dim = cnn.lexicon.num_characters, cnn.lexicon.word_dim
        if word_dim:
            table = "token_encoder/word_embedding/embedding"
            yield WeightRule("word_embed", (table,), (cnn.lexicon.num_words, word_dim))
    # The file omits the zero row of id 0, as `CharCNN` does.
    table = "token_encoder/char_cnn/char_embedding"
    yield WeightRule("char_embed", (table,), (num_characters, cnn.embedding_dim))
    for i, (width, count) in enumerate(cnn.filters):
        yield WeightRule(
            f"CNN/W_cnn_{i}",
            (f"token_encoder/char_cnn/kernel_{i}",),
            (1, width, cnn.embedding_dim, count),
            lambda array: array[0],
            lambda array: array[np.newaxis],
        )
        yield WeightRule(f"CNN/b_cnn_{i}", (f"token_encoder/char_cnn/bias_{i}",), (count,))
    features = cnn.num_filters
    for k in range(cnn.num_highway):
        for gate in ("carry", "transform"):
            for letter, kind, axes in (("W", "kernel", 2), ("b", "bias", 1)):
                variable = f"token_encoder/highway/{gate}_{kind}_{k}"
                yield WeightRule(f"CNN_high_{k}/{letter}_{gate}", (variable,), (features,) * axes)
    if cnn.lexicon is not None or features != dim:
        shape = (features + word_dim, dim)
        yield WeightRule("CNN_proj/W_proj", ("token_encoder/projection/kernel",), shape)
        yield WeightRule("CNN_proj/b_proj", ("token_encoder/projection/bias",), (dim,))


def _lstm_rules(config: BiLMConfig) -> Iterator[WeightRule]:
    dim, projection_dim = config.lstm.dim, config.lstm.projection_dim
    for index, direction in enumerate(config.directions):
        for layer in range(config.lstm.num_layers):
            cell = f"RNN_{index}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            variable = f"{direction}_lstm/lstm_{layer}/cell"
            yield WeightRule(
                f"{cell}/W_0",
                (f"{variable}/kernel", f"{variable}/recurrent_kernel"),
                (2 * projection_dim, 4 * dim),
                lambda array: np.split(array, 2),  # rows of the input, then of the state
                lambda *arrays: np.concatenate(arrays),
            )
            yield WeightRule(f"{cell}/B", (f"{variable}/bias",), (4 * dim,))
            if projection_dim != dim:
                shape = (dim, projection_dim)
                yield WeightRule(f"{cell}/W_P_0", (f"{variable}/projection_kernel",), shape)
