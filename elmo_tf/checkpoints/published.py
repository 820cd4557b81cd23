"""Checkpoints of `options.json` and HDF5 or safetensors: the published ones and elmo_tf's own."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from elmo_tf.checkpoints.formats import (
    EMBEDDINGS_FILE,
    OPTIONS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    Checkpoint,
    LocalPath,
    Source,
    in_all_formats,
    matches,
    newest,
)
from elmo_tf.checkpoints.names import softmax_rules, token_embedding_rules, weight_rules
from elmo_tf.checkpoints.weight_files import (
    FORMATS,
    WEIGHT_PATTERNS,
    array_shapes,
    read_weights,
    softmax_variables,
)
from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE

_OPTIONS = f"*{OPTIONS_FILE}"
# Names of files, without suffix, that are never the weights.
_OTHER_ARRAYS = (Path(EMBEDDINGS_FILE).stem, Path(SOFTMAX_FILE).stem)


class PublishedCheckpoint(Checkpoint):
    """A directory with one `*options.json` and one file of weights, or a pair of these files.

    The directory may also hold `token_embeddings.hdf5`, `softmax.hdf5` and `vocab.txt`.
    """

    patterns = (_OPTIONS, "*.hdf5", "*.safetensors", VOCABULARY_FILE, CHARACTERS_FILE, WORDS_FILE)
    replaces_characters = True

    def __init__(self, path: LocalPath, shown: Source):
        super().__init__(path, shown)
        if isinstance(path, tuple):
            self._options, self._weights = path
        else:
            self._options = _only(matches(path, [_OPTIONS]), [_OPTIONS], shown)
            self._weights = _weights_in(path, shown)

    @classmethod
    def recognizes(cls, path: LocalPath) -> bool:
        return isinstance(path, tuple) or (path.is_dir() and bool(matches(path, [_OPTIONS])))

    @functools.cached_property
    def config(self) -> BiLMConfig:
        return BiLMConfig.from_options(self._options)

    @property
    def holds_token_table(self) -> bool:
        return self._table_file() == self._weights

    def _table_file(self) -> str | os.PathLike:
        """The file with the token table of a biLM without a character CNN."""
        if self.token_embeddings is not None:
            return self.token_embeddings
        file = newest(in_all_formats(self.folder / EMBEDDINGS_FILE))
        if file is not None:
            return file
        (rule,) = token_embedding_rules()
        if rule.dataset in array_shapes(self._weights):
            return self._weights
        raise FileNotFoundError(
            f"There is no {EMBEDDINGS_FILE} in {self.folder}: a biLM without a character CNN needs "
            f"it, or the array `{rule.dataset}` in {self._weights.name}."
        )

    def read_weights(self, config: BiLMConfig, variables: dict[str, keras.Variable]) -> None:
        others: set[str] = set()  # further arrays that the files may contain
        if config.char_cnn is None:
            others = {
                rule.dataset for rule in (*weight_rules(self.config), *token_embedding_rules())
            }
            table = {k: v for k, v in variables.items() if k.startswith("token_embedding/")}
            read_weights(self._table_file(), token_embedding_rules(), table, others)
            variables = {k: v for k, v in variables.items() if k not in table}
        read_weights(self._weights, weight_rules(config), variables, others)

    @property
    def _softmax_file(self) -> Path | None:
        # The files of a pair may come from different directories.
        is_pair = isinstance(self.path, tuple)
        return None if is_pair else newest(in_all_formats(self.folder / SOFTMAX_FILE))

    @property
    def has_softmax(self) -> bool:
        return self._softmax_file is not None

    def softmax_size(self) -> int:
        return array_shapes(self._softmax_file).get("b", (1,))[0]

    def read_softmax(self, softmax: SampledSoftmax) -> None:
        is_tied = isinstance(softmax, TiedSoftmax)
        table = softmax.kernel.numpy() if is_tied else None
        read_weights(self._softmax_file, softmax_rules(), softmax_variables(softmax))
        if is_tied and not np.array_equal(softmax.kernel.numpy(), table):
            softmax.kernel.assign(table)
            raise ValueError(
                f"`W` in {self._softmax_file} differs from the embedding table of the biLM, "
                "although options.json has `share_embedding_softmax`. Were the files written by "
                "the same run?"
            )


def _weights_in(folder: Path, shown: Source) -> Path:
    """The weights; the message of an error names `shown`."""
    by_format = [[name for name in WEIGHT_PATTERNS if name.endswith(end)] for end in FORMATS]
    present = [patterns for patterns in by_format if matches(folder, patterns)]
    if not present:
        # A file with any other name, unless several could be the weights.
        files = matches(folder, [f"*.{end}" for end in FORMATS])
        files = [file for file in files if file.stem not in _OTHER_ARRAYS]
        return _only(files, WEIGHT_PATTERNS, shown)
    return newest(_only(matches(folder, patterns), patterns, shown) for patterns in present)


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
