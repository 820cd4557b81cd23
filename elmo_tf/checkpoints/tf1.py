"""Loading of training checkpoints of the original (TensorFlow 1)."""

import dataclasses
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.checkpoints.names import WeightRule, published_rules, token_embedding_rules
from elmo_tf.checkpoints.weight_files import (
    WEIGHT_PATTERNS,
    fill_variables,
    softmax_variables,
    variables_by_path,
)
from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.text.vocabulary import Vocabulary

# Scope of the model's variables. Other variables belong to the trainer.
_SCOPE = "lm/"
_SOFTMAX_BIAS = "lm/softmax/b"
# Names in the published files, and in training checkpoints.
_SPELLINGS = (
    ("RNN/MultiRNNCell/Cell", "rnn/multi_rnn_cell/cell_"),
    ("LSTMCell/W_P_0", "lstm_cell/projection/kernel"),
    ("LSTMCell/W_0", "lstm_cell/kernel"),
    ("LSTMCell/B", "lstm_cell/bias"),
)


class TF1Checkpoint(NamedTuple):
    """Files of a training run of the original.

    Args:
        options: its `options.json`.
        prefix: the checkpoint prefix, such as `run/model.ckpt-1250`.
    """

    options: Path
    prefix: Path

    @property
    def folder(self) -> Path:
        """Directory of the files."""
        return self.prefix.parent


def find_tf1_checkpoint(path: Any) -> TF1Checkpoint | None:
    """Returns the TensorFlow 1 checkpoint at a path, or None if it is not one.

    Args:
        path: a training directory with `options.json`, without HDF5 weights, and with a file
            `checkpoint` that names the latest checkpoint or a single `*.index`; or the prefix of a
            checkpoint in such a directory.

    Raises:
        FileNotFoundError: a file of the checkpoint is missing.
        ValueError: the directory contains several checkpoints and no file `checkpoint`.
    """
    if not isinstance(path, str | os.PathLike):
        return None
    path = Path(path)
    prefix = _prefix_in(path) if path.is_dir() else _prefix_of(path)
    if prefix is None:
        return None
    options = prefix.parent / "options.json"
    if not options.is_file():
        raise FileNotFoundError(
            f"There is no options.json in {prefix.parent}: it must be next to {prefix.name}."
        )
    return TF1Checkpoint(options, prefix)


def load_tf1_bilm(
    checkpoint: TF1Checkpoint,
    stateful: bool = False,
    vocabulary: str | os.PathLike | None = None,
    **kwargs,
) -> BiLM:
    """Loads the biLM of a training run.

    Args:
        checkpoint: see `find_tf1_checkpoint`.
        stateful: see `BiLM`.
        vocabulary: the vocabulary file of a biLM without a character CNN. Defaults to `vocab.txt`
            in the directory of the checkpoint.
        **kwargs: further arguments of `BiLM`.

    Raises:
        FileNotFoundError: the vocabulary is required and missing.
        ValueError: a file is damaged, or does not match the others. The message names it.

    Source: the training script of the original, and its `dump_weights`.
    """
    config = tf1_config(checkpoint)
    if config.char_cnn is None:
        path = Path(vocabulary or checkpoint.folder / "vocab.txt")
        if not path.is_file():
            raise FileNotFoundError(
                f"There is no vocabulary {path}: a biLM without a character CNN needs the "
                "vocabulary that it was trained with."
            )
        kwargs["vocabulary"] = Vocabulary.load(path)
    elif vocabulary is not None:
        raise ValueError("`vocabulary` must be None: this biLM has a character CNN.")
    bilm = BiLM(config, stateful=stateful, **kwargs)
    softmax = {rule.dataset for rule in tf1_softmax_rules(config)}
    _read_weights(checkpoint.prefix, tf1_rules(config), variables_by_path(bilm), softmax)
    return bilm


def load_tf1_softmax(
    checkpoint: TF1Checkpoint, bilm: BiLM, vocabulary_size: int | None = None
) -> SampledSoftmax:
    """Loads the softmax of a training run.

    Args:
        checkpoint: see `find_tf1_checkpoint`.
        bilm: see `load_softmax`.
        vocabulary_size: int or None. Size of the vocabulary; None takes it from the checkpoint.

    Raises:
        ValueError: a file is damaged or has the wrong shape.
    """
    config = tf1_config(checkpoint)
    if config.tie_softmax:
        softmax = TiedSoftmax(bilm.token_encoder)
    else:
        # If the bias is missing, `_read_weights` raises an error.
        in_file = _shapes(_open(checkpoint.prefix)).get(_SOFTMAX_BIAS, (1,))[0]
        softmax = SampledSoftmax(vocabulary_size or in_file)
    softmax.build((None, config.lstm.projection_dim))
    others = {rule.dataset for rule in tf1_rules(config)}
    rules = tf1_softmax_rules(config)
    _read_weights(checkpoint.prefix, rules, softmax_variables(softmax), others)
    return softmax


def tf1_rules(config: BiLMConfig) -> list[WeightRule]:
    """Returns the table of a biLM: the table of the published files, with other names."""
    rules = published_rules(config)
    if config.char_cnn is None:
        rules += token_embedding_rules()
    return [rule._replace(dataset=_tf1_name(rule.dataset, config)) for rule in rules]


def tf1_softmax_rules(config: BiLMConfig) -> list[WeightRule]:
    """Returns the table of the softmax, for the variables of a `SampledSoftmax`."""
    kernel = "lm/embedding" if config.tie_softmax else "lm/softmax/W"
    return [WeightRule(kernel, ("W",)), WeightRule(_SOFTMAX_BIAS, ("b",))]


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


def _prefix_in(folder: Path) -> Path | None:
    """The prefix of the latest checkpoint of a training directory."""
    if any(any(folder.glob(pattern)) for pattern in WEIGHT_PATTERNS):
        return None
    named = _named_prefix(folder)
    if named is not None:
        if _prefix_of(named) is None:
            raise FileNotFoundError(
                f"There is no {named.name}.index in {folder}, although the file `checkpoint` names "
                "it. Copy all files of the checkpoint, or pass the prefix of another checkpoint."
            )
        return named
    found = sorted(index.with_suffix("") for index in folder.glob("*.index"))
    if len(found) > 1:
        raise ValueError(
            f"{folder} contains {len(found)} checkpoints and no file `checkpoint` that names one: "
            f"{', '.join(prefix.name for prefix in found)}. Pass a prefix, such as {found[-1]}."
        )
    return found[0] if found else None


def _named_prefix(folder: Path) -> Path | None:
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:  # not a text file
        return None
    if state is None or not state.model_checkpoint_path:
        return None
    # The path may be absolute, and the directory may have been moved.
    return folder / Path(state.model_checkpoint_path).name


def tf1_config(checkpoint: TF1Checkpoint) -> BiLMConfig:
    """The shape of the biLM of a checkpoint of the original's training."""
    config = BiLMConfig.from_options(checkpoint.options)
    # A missing `bidirectional` means false in the trainer and true in published files. The trainer
    # uses a scope per direction only if there are two.
    names = _shapes(_open(checkpoint.prefix))
    forward_alone = any(name.startswith(f"{_SCOPE}rnn/") for name in names)
    return dataclasses.replace(config, bidirectional=config.bidirectional and not forward_alone)


def _read_weights(
    prefix: Path,
    rules: Sequence[WeightRule],
    variables: dict[str, keras.Variable],
    ignore: Collection[str],
) -> None:
    """Loads variables from a checkpoint; see `weight_files.read_weights`."""
    reader = _open(prefix)
    # A tied table belongs to both the biLM and the softmax.
    found = set(_shapes(reader)) - (set(ignore) - {rule.dataset for rule in rules})
    fill_variables(prefix, rules, variables, found, lambda name: _array(reader, prefix, name))


def _open(prefix: Path) -> Any:
    begin = f"{prefix.name}.data-"
    if not any(file.name.startswith(begin) for file in prefix.parent.iterdir()):
        raise FileNotFoundError(
            f"There is no {begin}00000-of-00001 in {prefix.parent}: the index contains no "
            "weights. Copy all files of the checkpoint."
        )
    try:
        reader = tf.train.load_checkpoint(os.fspath(prefix))
    except tf.errors.OpError as error:
        raise ValueError(
            f"Cannot open {prefix}.index: {error.message}. The file is damaged: copy it again."
        ) from None
    if not _shapes(reader):
        raise ValueError(
            f"{prefix} contains no variables in `{_SCOPE}`: it was not written by the original's "
            "trainer."
        )
    return reader


def _shapes(reader: Any) -> dict[str, list[int]]:
    """Shapes of the model's variables by name, without optimizer variables."""
    shapes = reader.get_variable_to_shape_map()
    return {
        name: shape
        for name, shape in shapes.items()
        if name.startswith(_SCOPE) and name.rpartition("/")[0] not in shapes
    }


def _array(reader: Any, prefix: Path, name: str) -> np.ndarray:
    try:
        return reader.get_tensor(name)
    except (tf.errors.OpError, IndexError) as error:  # IndexError: a truncated file
        raise ValueError(
            f"Cannot read `{name}` from {prefix}: {error}. The checkpoint is damaged: copy it "
            "again."
        ) from None
