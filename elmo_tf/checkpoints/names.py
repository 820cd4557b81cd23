"""Tables of the datasets in checkpoint files and the variables of a biLM."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from elmo_tf.config import BiLMConfig


class WeightRule(NamedTuple):
    """A dataset of a file and its variables."""

    dataset: str  # its name in the file
    variables: tuple[str, ...]  # paths within the `BiLM`
    # Converts the array of the file to that of the variable, or to a list of several.
    from_file: Callable[[np.ndarray], np.ndarray | list[np.ndarray]] = lambda array: array
    # Converts the arrays of the variables to that of the file.
    to_file: Callable[..., np.ndarray] = lambda array: array
    is_optional: bool = False  # whether the dataset is omitted if it is all zeros

    @property
    def is_plain(self) -> bool:
        """Whether the dataset equals the variable, without conversion."""
        return self.to_file is WeightRule._field_defaults["to_file"]


def weight_rules(config: BiLMConfig) -> list[WeightRule]:
    """Returns the table of `weights.hdf5`.

    The table of the published files, plus the state of `BiLM.warm_start`, which other
    implementations do not read.
    """
    state = WeightRule("initial_state", ("initial_state",), is_optional=True)
    return [*published_rules(config), state]


def published_rules(config: BiLMConfig) -> list[WeightRule]:
    """Returns the table of the published files. Source: `weights.hdf5` of these checkpoints."""
    char_cnn_rules = _char_cnn_rules(config) if config.char_cnn is not None else ()
    return [*char_cnn_rules, *_lstm_rules(config)]


def token_embedding_rules() -> list[WeightRule]:
    """Returns the table of `token_embeddings.hdf5`."""
    return [WeightRule("embedding", ("token_embedding/embedding",))]


def softmax_rules() -> list[WeightRule]:
    """Returns the table of `softmax.hdf5`, for the variables of a `SampledSoftmax`."""
    return [WeightRule("W", ("W",)), WeightRule("b", ("b",))]


def _char_cnn_rules(config: BiLMConfig) -> Iterator[WeightRule]:
    char_cnn = config.char_cnn
    if char_cnn.lexicon is not None and char_cnn.lexicon.num_words:
        yield WeightRule("word_embed", ("token_encoder/word_embedding/embedding",))
    # The file omits the zero row of id 0, as `CharCNN` does.
    yield WeightRule("char_embed", ("token_encoder/char_cnn/char_embedding",))
    for i in range(len(char_cnn.filters)):
        yield WeightRule(
            f"CNN/W_cnn_{i}",
            (f"token_encoder/char_cnn/kernel_{i}",),
            lambda array: array[0],  # file: (1, width, char, filter)
            lambda array: array[np.newaxis],
        )
        yield WeightRule(f"CNN/b_cnn_{i}", (f"token_encoder/char_cnn/bias_{i}",))
    for k in range(char_cnn.num_highway):
        for gate in ("carry", "transform"):
            for letter, kind in (("W", "kernel"), ("b", "bias")):
                variable = f"token_encoder/highway/{gate}_{kind}_{k}"
                yield WeightRule(f"CNN_high_{k}/{letter}_{gate}", (variable,))
    if char_cnn.lexicon is not None or char_cnn.num_filters != config.lstm.projection_dim:
        yield WeightRule("CNN_proj/W_proj", ("token_encoder/projection/kernel",))
        yield WeightRule("CNN_proj/b_proj", ("token_encoder/projection/bias",))


def _lstm_rules(config: BiLMConfig) -> Iterator[WeightRule]:
    for index, direction in enumerate(config.directions):
        for layer in range(config.lstm.num_layers):
            cell = f"RNN_{index}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            variable = f"{direction}_lstm/lstm_{layer}/cell"
            yield WeightRule(
                f"{cell}/W_0",
                (f"{variable}/kernel", f"{variable}/recurrent_kernel"),
                lambda array: np.split(array, 2),  # file: rows of the input, then of the state
                lambda *arrays: np.concatenate(arrays),
            )
            yield WeightRule(f"{cell}/B", (f"{variable}/bias",))
            if config.lstm.projection_dim != config.lstm.dim:
                yield WeightRule(f"{cell}/W_P_0", (f"{variable}/projection_kernel",))
