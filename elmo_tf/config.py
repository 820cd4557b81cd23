"""The configuration of a biLM: dataclasses, `options.json`, and presets."""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from typing import Any

from elmo_tf.config_checks import (
    check_bool,
    check_choice,
    check_int,
    check_keys,
    check_required,
    is_int,
    is_number,
    is_pair,
)

# Character ids: 256 bytes, <S>, </S>, begin and end of word, padding.
NUM_CHARACTERS = 261
ACTIVATIONS = ("relu", "tanh")
# The vectors of an `Embedder`, besides the number of a layer.
LAYERS = ("all", "concat", "average", "sum", "top", "mix")
# Where a task model reads ELMo, and the number of places.
PLACEMENTS = {"input": 1, "output": 1, "both": 2, "none": 0}

# Training options that the original writes to options.json. They do not affect the vectors and are
# ignored.
_TRAINING_OPTIONS = (
    "all_clip_norm_val",
    "batch_size",
    "dropout",
    "learning_rate",
    "n_epochs",
    "n_gpus",
    "n_negative_samples_batch",
    "n_train_tokens",
    "sample_softmax",
    "unroll_steps",
)
_PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclasses.dataclass(frozen=True)
class LexiconConfig:
    """Sizes of a `Lexicon`, and of the word embeddings beside the character CNN.

    Args:
        num_characters: int >= 1.
        num_words: int >= 0. 0 for characters alone.
        word_dim: int. Width of the word embeddings, at least 1 if there are words, else 0.

    Raises:
        ValueError: a value is out of range.

    Source: ELMoForManyLangs (Che et al. 2018).
    """

    num_characters: int
    num_words: int = 0
    word_dim: int = 0

    def __post_init__(self):
        check_int(self.num_characters, "lexicon.n_characters", least=1)
        check_int(self.num_words, "lexicon.n_words", least=0)
        check_int(self.word_dim, "lexicon.word_dim", least=0)
        if (self.num_words > 0) != (self.word_dim > 0):
            raise ValueError(
                "`lexicon.n_words` and `lexicon.word_dim` must both be 0 or both be positive. "
                f"Received: {self.num_words} and {self.word_dim}"
            )


@dataclasses.dataclass(frozen=True)
class CharCNNConfig:
    """Configuration of the character CNN. Defaults are the published values.

    Args:
        filters: pairs (width in characters, number of filters).
        embedding_dim: int >= 1. Width of the character embeddings.
        num_highway: int >= 0. Number of highway layers above the convolutions.
        activation: "relu" or "tanh", applied after the maximum over positions.
        max_chars: int. Maximum characters per token, including two word boundaries. Characters are
            UTF-8 bytes, or code points with a `lexicon`.
        lexicon: a `LexiconConfig` if characters are those of a `Lexicon`. Defaults to None: bytes.

    Raises:
        ValueError: a value is out of range.

    Source: Peters et al. 2018.
    """

    filters: tuple[tuple[int, int], ...] = _PUBLISHED_FILTERS
    embedding_dim: int = 16
    num_highway: int = 2
    activation: str = "relu"
    max_chars: int = 50
    lexicon: LexiconConfig | None = None

    def __post_init__(self):
        filters = self.filters
        if not isinstance(filters, tuple | list) or not filters or not all(map(is_pair, filters)):
            raise ValueError(
                "`char_cnn.filters` must be a list of pairs [width, count] of positive "
                f"integers. Received: {filters!r}"
            )
        object.__setattr__(self, "filters", tuple(map(tuple, filters)))
        check_int(self.embedding_dim, "char_cnn.embedding.dim", least=1)
        check_int(self.num_highway, "char_cnn.n_highway", least=0)
        check_choice(self.activation, "char_cnn.activation", ACTIVATIONS)
        check_int(
            self.max_chars,
            "char_cnn.max_characters_per_token",
            least=max(3, self.max_width),
            reason="it must fit two word boundaries and a byte, and the widest filter",
        )
        if self.lexicon is not None and not isinstance(self.lexicon, LexiconConfig):
            raise ValueError(
                f"`char_cnn.lexicon` must be a LexiconConfig or None. Received: {self.lexicon!r}"
            )

    @property
    def max_width(self) -> int:
        """Width of the widest filter, in characters."""
        return max(width for width, _ in self.filters)

    @property
    def num_filters(self) -> int:
        """Number of filters of all widths: the width of the CNN's output."""
        return sum(count for _, count in self.filters)


@dataclasses.dataclass(frozen=True)
class LSTMConfig:
    """Configuration of the LSTMs of both directions. Defaults are the published values.

    Args:
        dim: int >= 1. Width of the cell state.
        projection_dim: int, 1 to `dim`. Width of the token vectors and of the LSTM outputs. If it
            equals `dim`, there is no projection.
        num_layers: int >= 1. LSTM layers per direction.
        cell_clip: float > 0 or None. The cell state is clipped to ± this value.
        proj_clip: float > 0 or None. The projected output is clipped to ± this value.
        use_skip_connections: bool. Whether every layer but the first adds its input to its output.

    Raises:
        ValueError: a value is out of range.
    """

    dim: int = 4096
    projection_dim: int = 512
    num_layers: int = 2
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    use_skip_connections: bool = True

    def __post_init__(self):
        check_int(self.dim, "lstm.dim", least=1)
        check_int(self.projection_dim, "lstm.projection_dim", least=1)
        if self.projection_dim > self.dim:
            raise ValueError(
                f"`lstm.projection_dim` must be at most `lstm.dim` ({self.dim}). "
                f"Received: {self.projection_dim}"
            )
        check_int(self.num_layers, "lstm.n_layers", least=1)
        for name in ("cell_clip", "proj_clip"):
            value = getattr(self, name)
            if value is None:
                continue
            if not is_number(value) or not 0 < value < math.inf:
                raise ValueError(
                    f"`lstm.{name}` must be a positive, finite number or null. Received: {value!r}"
                )
            object.__setattr__(self, name, float(value))
        check_bool(self.use_skip_connections, "lstm.use_skip_connections")

    @property
    def state_sizes(self) -> tuple[int, int]:
        """Widths of a layer's `h` and `c`."""
        return self.projection_dim, self.dim


@dataclasses.dataclass(frozen=True)
class BiLMConfig:
    """Configuration of a biLM.

    Args:
        char_cnn: a `CharCNNConfig`, or None for a biLM with token embeddings: a table of
            `num_tokens` rows.
        lstm: an `LSTMConfig`.
        num_tokens: int >= 1 or None. Size of the vocabulary. Required if `char_cnn` is None;
            otherwise it is stored but not used.
        bidirectional: bool. False makes a forward-only model with vectors half as wide. Defaults to
            True.
        tie_softmax: bool. Whether the softmax shares the token embedding table; only if `char_cnn`
            is None. Defaults to False.

    Raises:
        ValueError: a value is out of range, `num_tokens` is required and missing, or `tie_softmax`
            is True and there is no embedding table.

    Source: Peters et al. 2018, section 3; `options.json` of the published checkpoints;
        `bidirectional` and `share_embedding_softmax` of the original's trainer.
    """

    char_cnn: CharCNNConfig | None = dataclasses.field(default_factory=CharCNNConfig)
    lstm: LSTMConfig = dataclasses.field(default_factory=LSTMConfig)
    num_tokens: int | None = None
    bidirectional: bool = True
    tie_softmax: bool = False

    def __post_init__(self):
        if self.char_cnn is not None and not isinstance(self.char_cnn, CharCNNConfig):
            raise ValueError(
                f"`char_cnn` must be a CharCNNConfig or None. Received: {self.char_cnn!r}"
            )
        if not isinstance(self.lstm, LSTMConfig):
            raise ValueError(f"`lstm` must be an LSTMConfig. Received: {self.lstm!r}")
        if self.num_tokens is not None:
            check_int(self.num_tokens, "n_tokens_vocab", least=1)
        if self.char_cnn is None and self.num_tokens is None:
            raise ValueError(
                "`n_tokens_vocab` is missing: without `char_cnn`, it is required as the number of "
                "rows of the token embedding table."
            )
        check_bool(self.bidirectional, "bidirectional")
        check_bool(self.tie_softmax, "share_embedding_softmax")
        if self.tie_softmax and self.char_cnn is not None:
            raise ValueError(
                "`share_embedding_softmax` requires a token embedding table: remove `char_cnn` or "
                "`share_embedding_softmax`."
            )

    @property
    def num_directions(self) -> int:
        """2, or 1 for a forward-only model."""
        return len(self.directions)

    @property
    def directions(self) -> tuple[str, ...]:
        """("forward", "backward"), or ("forward",) for a forward-only model."""
        return ("forward", "backward") if self.bidirectional else ("forward",)

    @property
    def output_dim(self) -> int:
        """Width of a token's vector in every layer: all directions concatenated."""
        return self.num_directions * self.lstm.projection_dim

    @classmethod
    def preset(cls, name: str) -> "BiLMConfig":
        """Returns "tiny" (for tests), or one of the published "small", "medium", "original".

        Raises:
            ValueError: unknown preset.
        """
        check_choice(name, "preset", PRESETS)
        return PRESETS[name]

    @classmethod
    def from_options(cls, options: str | os.PathLike | Mapping[str, Any]) -> "BiLMConfig":
        """Reads `options.json` of a checkpoint.

        Args:
            options: path of the file, or its content as a dict.

        Raises:
            ValueError: the file is not JSON, or contains an unknown key or an invalid value. The
                message names the key and the allowed values.
            OSError: the file cannot be read.
        """
        if isinstance(options, Mapping):
            return _config_from_options(options)
        path = os.fspath(options)
        with open(path, encoding="utf-8") as file:
            try:
                options = json.load(file)
            except ValueError as error:
                raise ValueError(f"{path} is not JSON: {error}") from None
        try:
            return _config_from_options(options)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def to_options(self) -> dict[str, Any]:
        """The content of `options.json`, in the format of the original and AllenNLP."""
        lstm = {key: getattr(self.lstm, field) for key, field in _LSTM_FIELDS.items()}
        options: dict[str, Any] = {"lstm": lstm}
        if self.char_cnn is not None:
            options["char_cnn"] = {
                "activation": self.char_cnn.activation,
                "embedding": {"dim": self.char_cnn.embedding_dim},
                "filters": [list(pair) for pair in self.char_cnn.filters],
                "n_highway": self.char_cnn.num_highway,
                "max_characters_per_token": self.char_cnn.max_chars,
                **_characters_as_options(self.char_cnn.lexicon),
            }
        if self.num_tokens is not None:
            options["n_tokens_vocab"] = self.num_tokens
        # The published files have neither of these keys.
        if not self.bidirectional:
            options["bidirectional"] = False
        if self.tie_softmax:
            options["share_embedding_softmax"] = True
        return options


# Keys of `char_cnn.lexicon` in options.json, with the fields of `LexiconConfig`.
_LEXICON_FIELDS = {
    "n_characters": "num_characters",
    "n_words": "num_words",
    "word_dim": "word_dim",
}

# Keys of `lstm` in options.json, with the fields of `LSTMConfig`.
_LSTM_FIELDS = {
    "dim": "dim",
    "projection_dim": "projection_dim",
    "n_layers": "num_layers",
    "cell_clip": "cell_clip",
    "proj_clip": "proj_clip",
    "use_skip_connections": "use_skip_connections",
}


def _config_from_options(options: Mapping[str, Any]) -> BiLMConfig:
    allowed = ("lstm", "char_cnn", "n_tokens_vocab", "bidirectional", "share_embedding_softmax")
    check_keys(options, allowed + _TRAINING_OPTIONS, "options")
    check_required(options, ("lstm",), "options")
    return BiLMConfig(
        char_cnn=_char_cnn_from_options(options["char_cnn"]) if "char_cnn" in options else None,
        lstm=_lstm_from_options(options["lstm"]),
        num_tokens=options.get("n_tokens_vocab"),
        bidirectional=options.get("bidirectional", True),
        tie_softmax=options.get("share_embedding_softmax", False),
    )


def _lstm_from_options(options: Mapping[str, Any]) -> LSTMConfig:
    check_keys(options, _LSTM_FIELDS, "lstm")
    check_required(options, ("dim", "projection_dim"), "lstm")
    # A missing key has the default of the original's code, not the published value.
    defaults = {
        "num_layers": 1,
        "cell_clip": None,
        "proj_clip": None,
        "use_skip_connections": False,
    }
    return LSTMConfig(**defaults | {_LSTM_FIELDS[key]: value for key, value in options.items()})


def _char_cnn_from_options(options: Mapping[str, Any]) -> CharCNNConfig:
    optional = ("activation", "n_highway", "max_characters_per_token", "n_characters", "lexicon")
    check_keys(options, ("embedding", "filters", *optional), "char_cnn")
    check_required(options, ("embedding", "filters"), "char_cnn")
    check_keys(options["embedding"], {"dim"}, "char_cnn.embedding")
    check_required(options["embedding"], ("dim",), "char_cnn.embedding")
    lexicon = None
    if "lexicon" in options:
        check_keys(options["lexicon"], _LEXICON_FIELDS, "char_cnn.lexicon")
        check_required(options["lexicon"], _LEXICON_FIELDS, "char_cnn.lexicon")
        fields = {_LEXICON_FIELDS[key]: value for key, value in options["lexicon"].items()}
        lexicon = LexiconConfig(**fields)
    # Training configurations of the original have 261, published checkpoints 262 (with id 0).
    count = options.get("n_characters", NUM_CHARACTERS + 1)
    if not is_int(count) or count not in (NUM_CHARACTERS, NUM_CHARACTERS + 1):
        raise ValueError(
            f"`char_cnn.n_characters` must be {NUM_CHARACTERS} or {NUM_CHARACTERS + 1} (256 bytes "
            f"and the special characters). Received: {count!r}"
        )
    return CharCNNConfig(
        filters=options["filters"],
        embedding_dim=options["embedding"]["dim"],
        num_highway=options.get("n_highway", 0),
        activation=options.get("activation", "relu"),
        max_chars=options.get("max_characters_per_token", 50),
        lexicon=lexicon,
    )


def _characters_as_options(lexicon: LexiconConfig | None) -> dict[str, Any]:
    if lexicon is None:
        return {"n_characters": NUM_CHARACTERS + 1}
    fields = {key: getattr(lexicon, field) for key, field in _LEXICON_FIELDS.items()}
    return {"lexicon": fields}


PRESETS = {
    "tiny": BiLMConfig(
        CharCNNConfig(filters=((1, 16), (2, 32), (3, 48)), embedding_dim=8, num_highway=1),
        LSTMConfig(dim=128, projection_dim=32),
    ),
    "small": BiLMConfig(CharCNNConfig(num_highway=1), LSTMConfig(dim=1024, projection_dim=128)),
    "medium": BiLMConfig(CharCNNConfig(num_highway=1), LSTMConfig(dim=2048, projection_dim=256)),
    "original": BiLMConfig(),
}
