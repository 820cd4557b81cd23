"""Training checkpoints of the original (TensorFlow 1)."""

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.checkpoints.formats import OPTIONS_FILE, Checkpoint, LocalPath, Source, matches
from elmo_tf.checkpoints.published import softmax_rules, token_embedding_rules, weight_rules
from elmo_tf.checkpoints.weight_files import WEIGHT_PATTERNS, WeightRule, read_arrays
from elmo_tf.config import BiLMConfig
from elmo_tf.files import refuse_pattern

# Scope of the model's variables. Other variables belong to the trainer.
_SCOPE = "lm/"
_SOFTMAX = "lm/softmax/"
# Names in the published files, and in training checkpoints.
_SPELLINGS = (
    ("RNN/MultiRNNCell/Cell", "rnn/multi_rnn_cell/cell_"),
    ("LSTMCell/W_P_0", "lstm_cell/projection/kernel"),
    ("LSTMCell/W_0", "lstm_cell/kernel"),
    ("LSTMCell/B", "lstm_cell/bias"),
)


class TF1Checkpoint(Checkpoint):
    """A training run of the original (TensorFlow 1).

    A directory with `options.json`, without HDF5 weights, and with a file `checkpoint` that names
    the latest checkpoint or a single `*.index`; or the prefix of a checkpoint in such a directory,
    such as `run/model.ckpt-1250`. The biLM and the softmax are in one file.

    Source: the training script of the original, and its `dump_weights`.
    """

    patterns = ()
    has_softmax = True

    def __init__(self, path: LocalPath, shown: Source):
        super().__init__(path, shown)
        self._prefix, *others = _prefixes_in(path) if path.is_dir() else [_prefix_of(path)]
        if others:
            names = ", ".join(prefix.name for prefix in (self._prefix, *others))
            raise ValueError(
                f"{path} contains several checkpoints and no file `checkpoint` that names one: "
                f"{names}. Pass a prefix."
            )

    @classmethod
    def recognizes(cls, path: LocalPath) -> bool:
        if isinstance(path, tuple):
            return False
        if not path.is_dir():
            return _prefix_of(path) is not None
        if not (path / OPTIONS_FILE).is_file() or matches(path, WEIGHT_PATTERNS):
            return False
        return bool(_prefixes_in(path))

    @functools.cached_property
    def config(self) -> BiLMConfig:
        config = BiLMConfig.from_options(self.folder / OPTIONS_FILE)
        # A missing `bidirectional` means false in the trainer and true in published files. The
        # trainer uses a scope per direction only if there are two.
        is_forward = any(name.startswith(f"{_SCOPE}rnn/") for name in _shapes(self._reader))
        return dataclasses.replace(config, bidirectional=config.bidirectional and not is_forward)

    def read_weights(self, config: BiLMConfig) -> dict[str, np.ndarray]:
        rules = weight_rules(config)
        if config.char_cnn is None:
            rules = itertools.chain(rules, token_embedding_rules(config))
        return self._read(rules, _SOFTMAX)

    def read_softmax(self) -> dict[str, np.ndarray]:
        rules = softmax_rules(self.config.lstm.projection_dim)
        if self.config.tie_softmax:  # `W` is the table of the biLM
            del rules[0]
        rules = (rule._replace(dataset=f"softmax/{rule.dataset}") for rule in rules)
        return self._read(rules, _SCOPE)

    def _read(self, rules: Iterable[WeightRule], ignore: str) -> dict[str, np.ndarray]:
        """Reads the arrays of rules with the names of the published files."""
        config, reader = self.config, self._reader
        rules = (rule._replace(dataset=_tf1_name(rule.dataset, config)) for rule in rules)
        return read_arrays(self._prefix, rules, _shapes(reader), reader.get_tensor, (ignore,))

    @functools.cached_property
    def _reader(self) -> Any:
        refuse_pattern(self._prefix)
        try:
            return tf.train.load_checkpoint(os.fspath(self._prefix))
        except tf.errors.OpError as error:
            raise ValueError(f"Cannot open {self._prefix}.index: {error.message}") from None


def _tf1_name(dataset: str, config: BiLMConfig) -> str:
    for published, trained in _SPELLINGS:
        dataset = dataset.replace(published, trained)
    if config.lstm.num_layers == 1:
        dataset = dataset.replace("multi_rnn_cell/cell_0/", "")
    if not config.bidirectional:
        dataset = dataset.removeprefix("RNN_0/")
    return _SCOPE + dataset


def _prefix_of(path: Path) -> Path | None:
    """The prefix at a path, which may be the `.index` file."""
    prefix = path.with_suffix("") if path.suffix == ".index" else path
    return prefix if prefix.with_name(f"{prefix.name}.index").is_file() else None


def _prefixes_in(folder: Path) -> list[Path]:
    """The prefix that the file `checkpoint` of a directory names; or else those of all indexes."""
    with contextlib.suppress(ValueError):  # of a file that is not text
        state = tf.train.get_checkpoint_state(folder)
        if state is not None and state.model_checkpoint_path:
            # The path may be absolute, or of Windows, and the directory may have been moved.
            return [folder / Path(state.model_checkpoint_path.replace("\\", "/")).name]
    return [index.with_suffix("") for index in matches(folder, ["*.index"])]


def _shapes(reader: Any) -> dict[str, list[int]]:
    """Shapes of the model's variables by name, without optimizer variables."""
    shapes = reader.get_variable_to_shape_map()
    return {
        name: shape
        for name, shape in shapes.items()
        if name.startswith(_SCOPE) and name.rpartition("/")[0] not in shapes
    }
