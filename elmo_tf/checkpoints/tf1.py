"""Training checkpoint of the original (TensorFlow 1) → BiLM and softmax."""

import dataclasses
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.checkpoints.hdf5 import fill_variables, softmax_variables, variables_by_path
from elmo_tf.checkpoints.names import WeightRule, published_rules, token_embedding_rules
from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.text.vocabulary import Vocabulary

# All variables of the model are below this; beside it are the trainer's own.
_SCOPE = "lm/"
_SOFTMAX_BIAS = "lm/softmax/b"
# Spellings of the published files, and of the trainer.
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
        prefix: what the names of a checkpoint's files begin with, such as `run/model.ckpt-1250`.
    """

    options: Path
    prefix: Path

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.prefix.parent


def find_tf1_checkpoint(path: Any) -> TF1Checkpoint | None:
    """The checkpoint that a path means, if it means one of TensorFlow 1.

    Args:
        path: a training directory: it holds `options.json`, no weights as HDF5, and a file
            `checkpoint` that names the newest checkpoint, or one `*.index` alone; or the prefix of
            a checkpoint in such a directory.

    Returns:
        None if `path` is anything else.

    Raises:
        FileNotFoundError: a file that must be in the directory is not there.
        ValueError: the directory holds several checkpoints, and does not say which one is meant.
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
            f"There is no options.json in {prefix.parent}: training writes it beside {prefix.name}."
        )
    return TF1Checkpoint(options, prefix)


def load_tf1_bilm(
    checkpoint: TF1Checkpoint,
    stateful: bool = False,
    vocabulary: str | os.PathLike | None = None,
    **kwargs,
) -> BiLM:
    """Reads the biLM of a training run.

    Args:
        checkpoint: see `find_tf1_checkpoint`.
        stateful: see `BiLM`.
        vocabulary: the vocabulary file of a biLM without a character CNN. Defaults to `vocab.txt`
            beside the checkpoint.
        **kwargs: further arguments of `BiLM`.

    Raises:
        FileNotFoundError: there is no vocabulary, and the biLM needs one.
        ValueError: a file is damaged, or does not fit the others. The message names it.

    Source: the training script of the original, and its `dump_weights`.
    """
    config = tf1_config(checkpoint)
    if config.char_cnn is None:
        path = Path(vocabulary or checkpoint.folder / "vocab.txt")
        if not path.is_file():
            raise FileNotFoundError(
                f"There is no vocabulary {path}: a biLM without a character CNN needs the one that "
                "it was trained with."
            )
        kwargs["vocabulary"] = Vocabulary.load(path)
    elif vocabulary is not None:
        raise ValueError("`vocabulary` is for a biLM without a character CNN; this one has one.")
    bilm = BiLM(config, stateful=stateful, **kwargs)
    softmax = {rule.dataset for rule in tf1_softmax_rules(config)}
    _read_weights(checkpoint.prefix, tf1_rules(config), variables_by_path(bilm), softmax)
    return bilm


def load_tf1_softmax(
    checkpoint: TF1Checkpoint,
    vocabulary_size: int | None = None,
    bilm: BiLM | None = None,
    **kwargs,
) -> SampledSoftmax:
    """Reads the softmax of a training run.

    Args:
        checkpoint: see `find_tf1_checkpoint`.
        vocabulary_size: int or None. Tokens of the vocabulary; None takes the checkpoint's word.
        bilm: the biLM of the same checkpoint. Needed for a softmax that shares its embedding table;
            without it, such a softmax has a table of its own.
        **kwargs: further arguments of `SampledSoftmax`.

    Raises:
        ValueError: a file is damaged, or has another shape.
    """
    config = tf1_config(checkpoint)
    if bilm is not None and config.tie_softmax:
        softmax = TiedSoftmax(bilm.token_encoder, **kwargs)
    else:
        # If there is no bias, reading says so.
        in_file = _shapes(_open(checkpoint.prefix)).get(_SOFTMAX_BIAS, (1,))[0]
        softmax = SampledSoftmax(vocabulary_size or in_file, **kwargs)
    softmax.build((None, config.lstm.projection_dim))
    others = {rule.dataset for rule in tf1_rules(config)}
    rules = tf1_softmax_rules(config)
    _read_weights(checkpoint.prefix, rules, softmax_variables(softmax), others)
    return softmax


def tf1_rules(config: BiLMConfig) -> list[WeightRule]:
    """The table for a biLM of that shape: that of the published files, in other words."""
    rules = published_rules(config)
    if config.char_cnn is None:
        rules += token_embedding_rules()
    return [rule._replace(dataset=_tf1_name(rule.dataset, config)) for rule in rules]


def tf1_softmax_rules(config: BiLMConfig) -> list[WeightRule]:
    """The table of the softmax, whose variables are those of a `SampledSoftmax`."""
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
    """The prefix that is meant by itself, or by the name of its index."""
    prefix = path.with_suffix("") if path.suffix == ".index" else path
    return prefix if prefix.with_name(f"{prefix.name}.index").is_file() else None


def _prefix_in(folder: Path) -> Path | None:
    """The prefix of the newest checkpoint of a training directory."""
    if any(folder.glob("*weights.hdf5")) or (folder / "model.hdf5").is_file():
        return None
    named = _named_prefix(folder)
    if named is not None:
        if _prefix_of(named) is None:
            raise FileNotFoundError(
                f"There is no {named.name}.index in {folder}, though the file `checkpoint` names "
                "it. Copy all files of the checkpoint, or pass the prefix of another one."
            )
        return named
    found = sorted(index.with_suffix("") for index in folder.glob("*.index"))
    if len(found) > 1:
        raise ValueError(
            f"{folder} holds {len(found)} checkpoints, and no file `checkpoint` that names one of "
            f"them: {', '.join(prefix.name for prefix in found)}. Pass a prefix: {found[-1]}."
        )
    return found[0] if found else None


def _named_prefix(folder: Path) -> Path | None:
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:  # no text
        return None
    if state is None or not state.model_checkpoint_path:
        return None
    # Often an absolute path of the machine, or the folder, in which the run was.
    return folder / Path(state.model_checkpoint_path).name


def tf1_config(checkpoint: TF1Checkpoint) -> BiLMConfig:
    """The shape of the biLM of a checkpoint of the original's training."""
    config = BiLMConfig.from_options(checkpoint.options)
    # The trainer takes a missing `bidirectional` for false, and published files for true; but it
    # has a scope for each direction only if there are two.
    names = _shapes(_open(checkpoint.prefix))
    forward_alone = any(name.startswith(f"{_SCOPE}rnn/") for name in names)
    return dataclasses.replace(config, bidirectional=config.bidirectional and not forward_alone)


def _read_weights(
    prefix: Path,
    rules: Sequence[WeightRule],
    variables: dict[str, keras.Variable],
    ignore: Collection[str],
) -> None:
    """Fills variables from a checkpoint, or changes none of them; see `hdf5.read_weights`."""
    reader = _open(prefix)
    # A tied table is needed by the biLM and by the softmax.
    found = set(_shapes(reader)) - (set(ignore) - {rule.dataset for rule in rules})
    fill_variables(prefix, rules, variables, found, lambda name: _array(reader, prefix, name))


def _open(prefix: Path) -> Any:
    begin = f"{prefix.name}.data-"
    if not any(file.name.startswith(begin) for file in prefix.parent.iterdir()):
        raise FileNotFoundError(
            f"There is no {begin}00000-of-00001 in {prefix.parent}: the index alone holds no "
            "weights. Copy all files of the checkpoint."
        )
    try:
        reader = tf.train.load_checkpoint(os.fspath(prefix))
    except tf.errors.OpError as error:
        raise ValueError(
            f"Cannot open {prefix}.index: {error.message}. The file is damaged; fetch it again."
        ) from None
    if not _shapes(reader):
        raise ValueError(
            f"{prefix} holds no variable below `{_SCOPE}`: it is no checkpoint of the original's "
            "trainer."
        )
    return reader


def _shapes(reader: Any) -> dict[str, list[int]]:
    """Shapes of the model's variables by name, without what an optimizer keeps of each."""
    shapes = reader.get_variable_to_shape_map()
    return {
        name: shape
        for name, shape in shapes.items()
        if name.startswith(_SCOPE) and name.rpartition("/")[0] not in shapes
    }


def _array(reader: Any, prefix: Path, name: str) -> np.ndarray:
    try:
        return reader.get_tensor(name)
    except (tf.errors.OpError, IndexError) as error:  # IndexError: a file that was cut short
        raise ValueError(
            f"Cannot read `{name}` from {prefix}: {error}. The checkpoint is damaged; fetch it "
            "again."
        ) from None
