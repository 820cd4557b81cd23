"""The configuration of a biLM: dataclasses, `options.json`, and presets."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import pydantic

from elmo_tf.config_checks import check_choice
from elmo_tf.settings import (
    check_keys,
    checked_dataclass,
    option_of,
    setting,
    settings_of,
)

# Character ids: 256 bytes, <S>, </S>, begin and end of word, padding.
NUM_CHARACTERS = 261
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


def _as_tuples(pairs: Any) -> Any:
    if not isinstance(pairs, tuple | list):
        return pairs
    return tuple(tuple(pair) if isinstance(pair, list) else pair for pair in pairs)


_Filters = Annotated[
    tuple[tuple[pydantic.PositiveInt, pydantic.PositiveInt], ...],
    pydantic.BeforeValidator(_as_tuples),
]


@checked_dataclass
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

    num_characters: int = setting(ge=1, place="lexicon.n_characters")
    num_words: int = setting(0, ge=0, place="lexicon.n_words")
    word_dim: int = setting(0, ge=0, place="lexicon.word_dim")

    def __post_init__(self):
        if (self.num_words > 0) != (self.word_dim > 0):
            raise ValueError(
                "`lexicon.n_words` and `lexicon.word_dim` must both be 0 or both be positive. "
                f"Received: {self.num_words} and {self.word_dim}"
            )


@checked_dataclass
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

    filters: _Filters = setting(
        _PUBLISHED_FILTERS,
        min_length=1,
        place="char_cnn.filters",
        allowed="a list of pairs [width, count] of positive integers",
    )
    embedding_dim: int = setting(16, ge=1, place="char_cnn.embedding.dim")
    num_highway: int = setting(2, ge=0, place="char_cnn.n_highway")
    activation: Literal["relu", "tanh"] = setting("relu", place="char_cnn.activation")
    max_chars: int = setting(50, ge=3, place="char_cnn.max_characters_per_token")
    lexicon: LexiconConfig | None = setting(None, place="char_cnn.lexicon")

    def __post_init__(self):
        if self.max_chars < self.max_width:
            raise ValueError(
                "`char_cnn.max_characters_per_token` must be an integer of at least "
                f"{self.max_width}, the width of the widest filter. Received: {self.max_chars}"
            )

    @property
    def max_width(self) -> int:
        """Width of the widest filter, in characters."""
        return max(width for width, _ in self.filters)

    @property
    def num_filters(self) -> int:
        """Number of filters of all widths: the width of the CNN's output."""
        return sum(count for _, count in self.filters)


@checked_dataclass
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

    dim: int = setting(4096, ge=1, place="lstm.dim")
    projection_dim: int = setting(512, ge=1, place="lstm.projection_dim")
    num_layers: int = setting(2, ge=1, place="lstm.n_layers")
    cell_clip: float | None = setting(3.0, gt=0, place="lstm.cell_clip")
    proj_clip: float | None = setting(3.0, gt=0, place="lstm.proj_clip")
    use_skip_connections: bool = setting(True, place="lstm.use_skip_connections")

    def __post_init__(self):
        if self.projection_dim > self.dim:
            raise ValueError(
                f"`lstm.projection_dim` must be at most `lstm.dim` ({self.dim}). "
                f"Received: {self.projection_dim}"
            )

    @property
    def state_sizes(self) -> tuple[int, int]:
        """Widths of a layer's `h` and `c`."""
        return self.projection_dim, self.dim


@checked_dataclass
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

    char_cnn: CharCNNConfig | None = setting(CharCNNConfig(), place="char_cnn")
    lstm: LSTMConfig = setting(LSTMConfig(), place="lstm")
    num_tokens: int | None = setting(None, ge=1, place="n_tokens_vocab")
    bidirectional: bool = setting(True, place="bidirectional")
    tie_softmax: bool = setting(False, place="share_embedding_softmax")

    def __post_init__(self):
        if self.char_cnn is None and self.num_tokens is None:
            raise ValueError(
                "`n_tokens_vocab` is missing: without `char_cnn`, it is required as the number of "
                "rows of the token embedding table."
            )
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
        options = {"lstm": _options_of(self.lstm), **_options_of(self)}
        if self.char_cnn is not None:
            char_cnn = _options_of(self.char_cnn)
            char_cnn["embedding"] = {"dim": char_cnn.pop("dim")}
            char_cnn["filters"] = [list(pair) for pair in self.char_cnn.filters]
            if self.char_cnn.lexicon is None:
                characters = {"n_characters": NUM_CHARACTERS + 1}
            else:
                characters = {"lexicon": _options_of(self.char_cnn.lexicon)}
            options["char_cnn"] = {**char_cnn, **characters}
        # The published files have none of these keys.
        for key, default in _OPTIONAL.items():
            if options[key] == default:
                del options[key]
        return options


_OPTIONAL = {"n_tokens_vocab": None, "bidirectional": True, "share_embedding_softmax": False}
# Missing keys have the defaults of the original's code, not the published values.
_LSTM_DEFAULTS = {
    "n_layers": 1,
    "cell_clip": None,
    "proj_clip": None,
    "use_skip_connections": False,
}


def _keys(config_class: Any) -> dict[str, str]:
    """The fields that a part of options.json fills, by key."""
    places = {name: option_of(field).place for name, field in settings_of(config_class).items()}
    return {place.rpartition(".")[2]: name for name, place in places.items()}


def _options_of(config: Any) -> dict[str, Any]:
    """A part of options.json, without the parts inside it."""
    parts = ("char_cnn", "lstm", "lexicon")
    keys = _keys(type(config))
    return {key: getattr(config, keys[key]) for key in keys if key not in parts}


def _fields_of(config_class: Any, options: Any, place: str, required: Iterable[str]) -> dict:
    """The fields that a part of options.json fills, with their values."""
    keys = _keys(config_class)
    _check_part(options, keys, place, required)
    return {keys[key]: value for key, value in options.items()}


def _check_part(options: Any, keys: Iterable[str], place: str, required: Iterable[str]) -> None:
    check_keys(options, keys, place)
    for key in required:
        if key not in options:
            raise ValueError(f"`{place}.{key}` is missing.")


def _config_from_options(options: Mapping[str, Any]) -> BiLMConfig:
    keys = _keys(BiLMConfig)
    _check_part(options, (*keys, *_TRAINING_OPTIONS), "options", ("lstm",))
    parts = {"char_cnn": _char_cnn_from_options, "lstm": _lstm_from_options}
    values = {key: options[key] for key in keys if key in options}
    values |= {key: read(options[key]) for key, read in parts.items() if key in options}
    return BiLMConfig(**{"char_cnn": None, **{keys[key]: values[key] for key in values}})


def _lstm_from_options(options: Mapping[str, Any]) -> LSTMConfig:
    fields = _fields_of(LSTMConfig, options, "lstm", ("dim", "projection_dim"))
    defaults = _fields_of(LSTMConfig, _LSTM_DEFAULTS, "lstm", ())
    return LSTMConfig(**defaults | fields)


def _char_cnn_from_options(options: Mapping[str, Any]) -> CharCNNConfig:
    keys = _keys(CharCNNConfig).keys() - {"dim"} | {"embedding", "n_characters"}
    _check_part(options, keys, "char_cnn", ("embedding", "filters"))
    _check_part(options["embedding"], ("dim",), "char_cnn.embedding", ("dim",))
    # Training configurations of the original have 261, published checkpoints 262 (with id 0).
    count = options.get("n_characters", NUM_CHARACTERS + 1)
    if count not in (NUM_CHARACTERS, NUM_CHARACTERS + 1):
        raise ValueError(
            f"`char_cnn.n_characters` must be {NUM_CHARACTERS} or {NUM_CHARACTERS + 1} (256 bytes "
            f"and the special characters). Received: {count!r}"
        )
    part = {"n_highway": 0, **options, **options["embedding"]}
    if "lexicon" in part:
        lexicon = _fields_of(
            LexiconConfig, part["lexicon"], "char_cnn.lexicon", _keys(LexiconConfig)
        )
        part["lexicon"] = LexiconConfig(**lexicon)
    keys = _keys(CharCNNConfig)
    return CharCNNConfig(**{keys[key]: part[key] for key in keys if key in part})


PRESETS = {
    "tiny": BiLMConfig(
        CharCNNConfig(filters=((1, 16), (2, 32), (3, 48)), embedding_dim=8, num_highway=1),
        LSTMConfig(dim=128, projection_dim=32),
    ),
    "small": BiLMConfig(CharCNNConfig(num_highway=1), LSTMConfig(dim=1024, projection_dim=128)),
    "medium": BiLMConfig(CharCNNConfig(num_highway=1), LSTMConfig(dim=2048, projection_dim=256)),
    "original": BiLMConfig(),
}
