"""The configuration of a biLM: dataclasses, `options.json`, and presets."""

import codecs
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pydantic
import pydantic_core

from elmo_tf.logs import warn_once
from elmo_tf.settings import Count, Natural, Positive, checked_dataclass, one_line

# Character ids: 256 bytes, <S>, </S>, begin and end of word, padding.
NUM_CHARACTERS = 261
_PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
# Not strict: lists become tuples.
_Pair = Annotated[tuple[Count, Count], pydantic.Strict(False)]
_Filters = Annotated[tuple[_Pair, ...], pydantic.Strict(False), pydantic.Field(min_length=1)]


@checked_dataclass(strict=True)
class _Options:
    """An object of `options.json`. As in the original, keys without a field are ignored."""

    ABSENT: ClassVar[dict[str, Any]] = {}  # values of keys that a file lacks, beside the defaults

    @pydantic.model_validator(mode="before")
    @classmethod
    def _of_file(cls, given: Any) -> Any:
        if not isinstance(given, dict):  # arguments of the constructor
            return given
        fields = cls.__pydantic_fields__
        names = {*fields, *(field.alias for field in fields.values())}
        others = sorted(given.keys() - names)  # most are of training
        if others:
            shown = ", ".join(map(repr, others[:9]))[:300]
            warn_once(f"options: {shown}", "Unknown keys of options.json are ignored: %s.", shown)
        return cls.ABSENT | {name: given[name] for name in given if name in names}


@checked_dataclass(strict=True)
class LexiconConfig(_Options):
    """Sizes of a `Lexicon`, and of the word embeddings beside the character CNN.

    Args:
        num_characters: int >= 1.
        num_words: int >= 0. 0 for characters alone.
        word_dim: int. Width of the word embeddings, at least 1 if there are words, else 0.

    Source: ELMoForManyLangs (Che et al. 2018).
    """

    num_characters: Count = pydantic.Field(alias="n_characters")
    num_words: Natural = pydantic.Field(0, alias="n_words")
    word_dim: Natural = 0

    def __post_init__(self):
        if (self.num_words > 0) != (self.word_dim > 0):
            raise ValueError("`n_words` and `word_dim` must both be 0 or both be positive.")


@checked_dataclass(strict=True)
class CharCNNConfig(_Options):
    """Configuration of the character CNN. Defaults are the published values.

    Args:
        filters: pairs (width in characters, number of filters).
        embedding_dim: int >= 1. Width of the character embeddings.
        num_highway: int >= 0. Number of highway layers above the convolutions.
        activation: "relu" or "tanh", applied after the maximum over positions.
        max_chars: int, 3 to 10,000. Maximum characters per token, including two word boundaries.
            Characters are UTF-8 bytes, or code points with a `lexicon`.
        lexicon: a `LexiconConfig` if characters are those of a `Lexicon`. Defaults to None: bytes.

    Source: Peters et al. 2018.
    """

    filters: _Filters = _PUBLISHED_FILTERS
    embedding_dim: Count = pydantic.Field(16, alias="embedding.dim")
    num_highway: Natural = pydantic.Field(2, alias="n_highway")
    activation: Literal["relu", "tanh"] = "relu"
    max_chars: int = pydantic.Field(50, ge=3, le=10_000, alias="max_characters_per_token")
    lexicon: LexiconConfig | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _of_file(cls, given: Any) -> Any:
        if not isinstance(given, dict):  # arguments of the constructor
            return given
        found = {"filters": None, **given, "n_highway": given.get("n_highway") or 0}
        embedding = found.pop("embedding", None)
        if not isinstance(embedding, dict) or "dim" not in embedding:
            raise ValueError(f"`embedding` must be an object with `dim`. Received: {embedding!r}")
        # Training configurations of the original have 261, published checkpoints 262 (with id 0).
        count = found.pop("n_characters", NUM_CHARACTERS)
        if count not in (NUM_CHARACTERS, NUM_CHARACTERS + 1):
            raise ValueError(f"`n_characters` must be 261 or 262. Received: {count!r}")
        return super()._of_file(found | {"embedding.dim": embedding["dim"]})

    def __post_init__(self):
        if self.max_chars < self.max_width:
            raise ValueError(
                f"`max_characters_per_token` must be at least {self.max_width}, the width of the "
                f"widest filter. Received: {self.max_chars}"
            )

    @property
    def max_width(self) -> int:
        """Width of the widest filter, in characters."""
        return max(width for width, _ in self.filters)

    @property
    def num_filters(self) -> int:
        """Number of filters of all widths: the width of the CNN's output."""
        return sum(count for _, count in self.filters)


@checked_dataclass(strict=True)
class LSTMConfig(_Options):
    """Configuration of the LSTMs of both directions. Defaults are the published values.

    Args:
        dim: int >= 1. Width of the cell state.
        projection_dim: int, 1 to `dim`. Width of the token vectors and of the LSTM outputs. If it
            equals `dim`, there is no projection.
        num_layers: int >= 1. LSTM layers per direction.
        cell_clip: float > 0 or None. The cell state is clipped to ± this value.
        proj_clip: float > 0 or None. The projected output is clipped to ± this value.
        use_skip_connections: bool. Whether every layer but the first adds its input to its output.
    """

    dim: Count = 4096
    projection_dim: Count = 512
    num_layers: Count = pydantic.Field(2, alias="n_layers")
    cell_clip: Positive | None = 3.0
    proj_clip: Positive | None = 3.0
    use_skip_connections: bool = True

    # The defaults of the original's code. None is an error for the first two.
    ABSENT: ClassVar = dict.fromkeys(("dim", "projection_dim", "cell_clip", "proj_clip"))
    ABSENT |= {"n_layers": 1, "use_skip_connections": False}

    def __post_init__(self):
        if self.projection_dim > self.dim:
            problem = f"`projection_dim` must be at most `dim` ({self.dim})"
            raise ValueError(f"{problem}. Received: {self.projection_dim}")

    @property
    def state_sizes(self) -> tuple[int, int]:
        """Widths of a layer's `h` and `c`."""
        return self.projection_dim, self.dim


@checked_dataclass(strict=True)
class BiLMConfig(_Options):
    """Configuration of a biLM.

    Args:
        char_cnn: a `CharCNNConfig`, or None for a biLM with token embeddings: a table of
            `num_tokens` rows.
        lstm: an `LSTMConfig`.
        num_tokens: int >= 1. Size of the vocabulary, which is required if `char_cnn` is None.
        bidirectional: bool. False makes a forward-only model with vectors half as wide.
        tie_softmax: bool. Whether the softmax shares the token embedding table; only if `char_cnn`
            is None. Defaults to False.
        tokenizer: the tokenizer of the training text: the code of a language, see
            `LanguageTokenizer`, or "whitespace". Defaults to None: unknown.

    Raises:
        ValueError: a value is out of range, or the options exclude each other.

    Example:
        >>> config = elmo_tf.BiLMConfig.preset("tiny")
        >>> config.output_dim, config.lstm.num_layers
        (64, 2)

    Source: Peters et al. 2018, section 3; `options.json` of the published checkpoints;
        `bidirectional` and `share_embedding_softmax` of the original's trainer.
    """

    char_cnn: CharCNNConfig | None = CharCNNConfig()
    lstm: LSTMConfig = LSTMConfig()
    num_tokens: Count | None = pydantic.Field(None, alias="n_tokens_vocab")
    bidirectional: bool = True
    tie_softmax: bool = pydantic.Field(False, alias="share_embedding_softmax")
    tokenizer: str | None = None

    ABSENT: ClassVar = {"lstm": None, "char_cnn": None}

    def __post_init__(self):
        if self.char_cnn is None and self.num_tokens is None:
            raise ValueError("`n_tokens_vocab` is missing: it is required without `char_cnn`.")
        if self.tie_softmax and self.char_cnn is not None:
            raise ValueError("`share_embedding_softmax` and `char_cnn` exclude each other.")

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
        """Returns "tiny" (for tests), or one of the published "small", "medium", "original"."""
        if name not in PRESETS:
            raise ValueError(f"`preset` must be one of {', '.join(PRESETS)}. Received: {name!r}")
        return PRESETS[name]

    @classmethod
    def from_options(cls, options: str | os.PathLike | Mapping[str, Any]) -> "BiLMConfig":
        """Reads `options.json` of a checkpoint. Unknown keys are ignored with a warning.

        `options` is the path of the file, or its content as a dict. Raises `ValueError` if it is
        not JSON, or contains an invalid value.
        """
        if isinstance(options, Mapping):
            place, content = "", json.dumps(options)
        else:
            place, content = f"{os.fspath(options)}: ", Path(options).read_bytes()
            content = content.removeprefix(codecs.BOM_UTF8)
        try:
            return _FORMAT.validate_json(content)
        except pydantic.ValidationError as error:
            raise ValueError(f"{place}{one_line(error, cls)}") from None

    def to_options(self) -> dict[str, Any]:
        """The content of `options.json`, in the format of the original and AllenNLP."""
        options = pydantic_core.to_jsonable_python(self)
        if self.char_cnn is not None:
            char_cnn = options["char_cnn"]
            char_cnn["embedding"] = {"dim": char_cnn.pop("embedding.dim")}
            if self.char_cnn.lexicon is None:
                del char_cnn["lexicon"]
                char_cnn["n_characters"] = NUM_CHARACTERS + 1
        # The published files have no key of these with its default.
        defaults = {"char_cnn": None, "n_tokens_vocab": None, "tokenizer": None}
        defaults |= {"bidirectional": True, "share_embedding_softmax": False}
        return {key: value for key, value in options.items() if value != defaults.get(key, ...)}


_FORMAT = pydantic.TypeAdapter(BiLMConfig)

PRESETS = {
    "tiny": BiLMConfig(
        CharCNNConfig(filters=((1, 16), (2, 32), (3, 48)), embedding_dim=8, num_highway=1),
        LSTMConfig(dim=128, projection_dim=32),
    ),
    "small": BiLMConfig(CharCNNConfig(num_highway=1), LSTMConfig(dim=1024, projection_dim=128)),
    "medium": BiLMConfig(CharCNNConfig(num_highway=1), LSTMConfig(dim=2048, projection_dim=256)),
    "original": BiLMConfig(),
}
