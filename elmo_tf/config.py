"""The configuration of a biLM: dataclasses, `options.json`, and presets."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import pydantic

from elmo_tf.config_checks import check_choice
from elmo_tf.settings import (
    Count,
    Natural,
    Positive,
    check_keys,
    checked_dataclass,
    option_of,
    setting,
    settings_of,
)

# Character ids: 256 bytes, <S>, </S>, begin and end of word, padding.
NUM_CHARACTERS = 261
# Where a task model reads ELMo, and the number of places.
PLACEMENTS = {"input": 1, "output": 1, "both": 2, "none": 0}

# Training options that the original writes to options.json. They do not affect the vectors and are
# ignored.
_TRAINING_OPTIONS = (
    *("all_clip_norm_val", "batch_size", "dropout", "learning_rate", "n_epochs", "n_gpus"),
    *("n_negative_samples_batch", "n_train_tokens", "sample_softmax", "unroll_steps"),
)
_PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


# Not strict: lists become tuples.
_Pair = Annotated[tuple[Count, Count], pydantic.Strict(False)]
_Filters = Annotated[tuple[_Pair, ...], pydantic.Strict(False)]


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

    num_characters: Count = setting(place="char_cnn.lexicon.n_characters")
    num_words: Natural = setting(0, place="char_cnn.lexicon.n_words")
    word_dim: Natural = setting(0, place="char_cnn.lexicon.word_dim")

    def __post_init__(self):
        if (self.num_words > 0) != (self.word_dim > 0):
            raise ValueError(
                "`char_cnn.lexicon.n_words` and `word_dim` must both be 0 or both be positive. "
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
    embedding_dim: Count = setting(16, place="char_cnn.embedding.dim")
    num_highway: Natural = setting(2, place="char_cnn.n_highway")
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

    dim: Count = setting(4096, place="lstm.dim")
    projection_dim: Count = setting(512, place="lstm.projection_dim")
    num_layers: Count = setting(2, place="lstm.n_layers")
    cell_clip: Positive | None = setting(3.0, place="lstm.cell_clip")
    proj_clip: Positive | None = setting(3.0, place="lstm.proj_clip")
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
    num_tokens: Count | None = setting(None, place="n_tokens_vocab")
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
            return _read_options(options)
        path = os.fspath(options)
        try:
            with open(path, encoding="utf-8") as file:
                return _read_options(json.load(file))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not JSON: {error}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def to_options(self) -> dict[str, Any]:
        """The content of `options.json`, in the format of the original and AllenNLP."""
        values = {}
        lexicon = None if self.char_cnn is None else self.char_cnn.lexicon
        for config in filter(None, (self.lstm, self.char_cnn, lexicon, self)):
            values |= {place: getattr(config, name) for place, name in _places(type(config))}
        if self.char_cnn is not None:
            values["char_cnn.filters"] = [list(pair) for pair in self.char_cnn.filters]
            if lexicon is None:
                values["char_cnn.n_characters"] = NUM_CHARACTERS + 1
        options: dict[str, Any] = {}
        for place, value in values.items():
            *parts, key = place.split(".")
            # The published files have no key of these with its default.
            if place in _PARTS or (place in _UNWRITTEN and value == _UNWRITTEN[place]):
                continue
            inner = options
            for part in parts:
                inner = inner.setdefault(part, {})
            inner[key] = value
        return options


_UNWRITTEN = {"n_tokens_vocab": None, "bidirectional": True, "share_embedding_softmax": False}
# The parts of options.json, and the keys that each must have.
_PARTS = {
    "options": ("lstm",),
    "lstm": ("dim", "projection_dim"),
    "char_cnn": ("embedding", "filters"),
    "char_cnn.embedding": ("dim",),
    "char_cnn.lexicon": ("n_characters", "n_words", "word_dim"),
}
# Missing keys have the defaults of the original's code, not the published values.
_DEFAULTS = {
    "lstm.n_layers": 1,
    "lstm.cell_clip": None,
    "lstm.proj_clip": None,
    "lstm.use_skip_connections": False,
    "char_cnn.n_highway": 0,
    "char_cnn": None,
}


def _places(config_class: Any) -> list[tuple[str, str]]:
    """The places in options.json and names of the fields of a configuration."""
    fields = settings_of(config_class)
    return [(option_of(field).place, name) for name, field in fields.items()]


def _read_options(options: Any) -> BiLMConfig:
    values = _DEFAULTS | dict(_read_part(options, "options"))
    # Training configurations of the original have 261, published checkpoints 262 (with id 0).
    count = values.get("char_cnn.n_characters", NUM_CHARACTERS)
    if count not in (NUM_CHARACTERS, NUM_CHARACTERS + 1):
        raise ValueError(
            f"`char_cnn.n_characters` must be {NUM_CHARACTERS} or {NUM_CHARACTERS + 1} (256 bytes "
            f"and the special characters). Received: {count!r}"
        )

    def new(config_class: Any) -> Any:
        places = _places(config_class)
        return config_class(**{name: values[place] for place, name in places if place in values})

    values["lstm"] = new(LSTMConfig)
    if "char_cnn" in options:
        if "lexicon" in options["char_cnn"]:
            values["char_cnn.lexicon"] = new(LexiconConfig)
        values["char_cnn"] = new(CharCNNConfig)
    return new(BiLMConfig)


def _read_part(options: Any, part: str) -> Iterator[tuple[str, Any]]:
    """Checks the keys of a part of options.json; yields its places and values."""
    prefix = "" if part == "options" else f"{part}."
    classes = (BiLMConfig, LSTMConfig, CharCNNConfig, LexiconConfig)
    places = [place for config_class in classes for place, _ in _places(config_class)]
    if part == "options":
        places += _TRAINING_OPTIONS
    elif part == "char_cnn":
        places.append("char_cnn.n_characters")
    inner = [place.removeprefix(prefix) for place in places if place.startswith(prefix)]
    check_keys(options, dict.fromkeys(key.partition(".")[0] for key in inner), part)
    for key in _PARTS[part]:
        if key not in options:
            raise ValueError(f"`{part}.{key}` is missing.")
    for key, value in options.items():
        place = prefix + key
        yield from _read_part(value, place) if place in _PARTS else [(place, value)]


PRESETS = {
    "tiny": BiLMConfig(
        CharCNNConfig(filters=((1, 16), (2, 32), (3, 48)), embedding_dim=8, num_highway=1),
        LSTMConfig(dim=128, projection_dim=32),
    ),
    "small": BiLMConfig(CharCNNConfig(num_highway=1), LSTMConfig(dim=1024, projection_dim=128)),
    "medium": BiLMConfig(CharCNNConfig(num_highway=1), LSTMConfig(dim=2048, projection_dim=256)),
    "original": BiLMConfig(),
}
