"""The input of task models: tokens ─► [embeddings of words and characters; ELMo]."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from elmo_tf.layers.char_cnn import CharCNN, cut_characters
from elmo_tf.layers.weights import set_attributes
from elmo_tf.models.elmo import Elmo
from elmo_tf.models.token_ids import distinct_rows
from elmo_tf.tasks.config import PLACEMENTS
from elmo_tf.text.characters import DEFAULT_MAX_CHARS, char_ids
from elmo_tf.text.inputs import is_token
from elmo_tf.text.reading import is_utf_8

_STDDEV = 0.1  # of the initial vectors; about that of published ones


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenVectors(keras.layers.Layer):
    """Concatenates the embeddings of a token with its ELMo vector.

    Args:
        embeddings: layers from string (batch, token) to float (batch, token, feature), such as
            `WordEmbedding` and `CharacterEmbedding`.
        elmo: an `Elmo` or None.
        placement: where the task model concatenates ELMo: "input", with the embeddings; "output",
            with the output of its LSTM; "both", with separate mixes if `elmo` has two; "none".
            Defaults to "input".

    Call arguments:
        tokens: string (batch, token), padded with `""`.
        layers: float (batch, layer, token, feature). Precomputed layers of the biLM; None computes
            them. Defaults to None.
        training: bool. Defaults to False.

    Returns:
        A dict: "input", float (batch, token, feature); "output", float (batch, token, feature) of
        ELMo, if it is placed there; "mask", bool (batch, token).

    Raises:
        TypeError: `elmo` is not an `Elmo`.
        ValueError: the placement is unknown or needs an `elmo`, `elmo` has the wrong number of
            mixes, or there is neither an embedding nor ELMo at the input.

    Source: Peters et al. 2018, sections 3.3 and 5.2.
    """

    def __init__(
        self,
        embeddings: Sequence[keras.layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if placement not in PLACEMENTS:
            allowed = ", ".join(PLACEMENTS)
            raise ValueError(f"`placement` must be one of {allowed}. Received: {placement!r}")
        self.embeddings = list(embeddings)
        set_attributes(self, "embeddings", self.embeddings)
        self.elmo = elmo if placement != "none" else None
        self.placement = placement
        self.supports_jit = False  # strings
        if self.elmo is not None and not isinstance(self.elmo, Elmo):
            raise TypeError(
                '`elmo` must be an Elmo, such as Elmo.from_pretrained("small-en") or Elmo(bilm). '
                f"Received: {self.elmo!r:.80} (of type {type(self.elmo).__name__})."
            )
        places = PLACEMENTS[self.placement]
        if self.elmo is None and self.placement in ("output", "both"):
            raise ValueError(f"placement {self.placement!r} needs an `elmo`. Received: None")
        if self.elmo is not None and self.elmo.num_mixes not in (1, places):
            allowed = "1" if places == 1 else f"1 or {places}"
            raise ValueError(
                f"`elmo` must have num_mixes={allowed} for placement {self.placement!r}. "
                f"Received: {self.elmo.num_mixes}"
            )
        has_elmo_input = self.elmo is not None and self.placement != "output"
        if not self.embeddings and not has_elmo_input:
            raise ValueError(
                "The model has no input: pass `embeddings`, or an `elmo` with placement input or "
                "both."
            )

    def call(self, tokens, layers=None, training=False):
        mask = is_token(tokens)
        parts = [embed(tokens) for embed in self.embeddings]
        vectors = {"mask": mask}
        if self.elmo is not None:
            if layers is None:
                mixes = self.elmo(tokens, training=training)
            else:
                mixes = self.elmo.of_layers(ops.cast(layers, "float32"), mask, training=training)
            mixes = mixes if isinstance(mixes, list) else [mixes]
            if self.placement != "output":
                parts.append(mixes[0])
            if self.placement != "input":
                vectors["output"] = mixes[-1]
        return {**vectors, "input": ops.concatenate(parts, axis=-1)}

    def get_config(self):
        return {
            **super().get_config(),
            "embeddings": [keras.saving.serialize_keras_object(layer) for layer in self.embeddings],
            "elmo": None if self.elmo is None else keras.saving.serialize_keras_object(self.elmo),
            "placement": self.placement,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**cls.restored(config))

    @staticmethod
    def restored(config: dict[str, Any]) -> dict[str, Any]:
        """A configuration with its serialized layers deserialized."""
        restore = keras.saving.deserialize_keras_object
        return {
            **config,
            "embeddings": [restore(layer) for layer in config["embeddings"]],
            "elmo": config["elmo"] and restore(config["elmo"]),
        }


@keras.saving.register_keras_serializable(package="elmo_tf")
class WordEmbedding(keras.layers.Layer):
    """Word vectors for a list of words; all other words share one vector.

    Args:
        words: distinct strings.
        dim: int >= 1. Width of the vectors.
        lowercase: bool. Whether to look up tokens in lower case, by the rules of the process's
            locale (Turkish and Lithuanian have other rules). Defaults to False.
        num_trained: int, 0 to the number of words, or None. The number of words, from the first,
            whose vectors are trained; the shared vector is always trained. The others are fixed,
            and cost no training time. None trains all. Defaults to None.

    Call arguments:
        tokens: string (batch, token), padded with `""`.

    Returns:
        float (batch, token, dim), zeros for `""`.

    Raises:
        ValueError: `words` is empty or has duplicates, or an argument is out of its range.
    """

    def __init__(
        self,
        words: Iterable[str],
        dim: int,
        lowercase: bool = False,
        num_trained: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.words = tuple(words)
        if not self.words:
            raise ValueError("`words` is empty. Pass at least one word.")
        self.dim = dim
        self.lowercase = lowercase
        self.num_trained = num_trained
        # Id 0 is padding, 1 any other word. Keras pads a list of words to the longest one.
        vocabulary = np.array(self.words, object)
        self.lookup = keras.layers.StringLookup(
            vocabulary=vocabulary, mask_token="", oov_token="[UNK]", name="lookup"
        )
        self.supports_jit = False  # strings

    @classmethod
    def from_texts(
        cls, texts: Iterable[Sequence[str]], dim: int, min_count: int = 2, **kwargs
    ) -> "WordEmbedding":
        """A layer for the words of texts, in order of decreasing count.

        Args:
            texts: lists of tokens.
            dim, kwargs: see the layer.
            min_count: int >= 1. Smallest count of a word. Rarer words share one vector, which is
                trained on them. Defaults to 2.
        """
        counts = word_counts(texts, kwargs.get("lowercase", False))
        words = [word for word, count in counts.most_common() if count >= min_count]
        return cls(words, dim, **kwargs)

    @classmethod
    def from_vectors(
        cls, vectors: Mapping[str, np.ndarray], words: Iterable[str] | None = None, **kwargs
    ) -> "WordEmbedding":
        """A layer initialized with pretrained vectors.

        Args:
            vectors: the vector of each word, float (feature,), see `read_word_vectors`.
            words: the words of the layer; those without a vector are initialized with the mean.
                None takes all words with a vector. Defaults to None.
            **kwargs: arguments of the layer except `words` and `dim`.
        """
        words = [word for word in (vectors if words is None else words) if is_utf_8(word)]
        mean = np.mean([*vectors.values()], axis=0)
        layer = cls(words, len(mean), **kwargs)
        layer.build((None, None))
        rows = np.stack([mean, *(vectors.get(word, mean) for word in words)])
        num_rows = layer.embedding.shape[0]
        layer.embedding.assign(rows[:num_rows])
        if layer.fixed is not None:
            layer.fixed.assign(rows[num_rows:])
        return layer

    def build(self, input_shape):
        num_fixed = 0 if self.num_trained is None else len(self.words) - self.num_trained
        num_trained = len(self.words) - num_fixed
        initializer = keras.initializers.RandomNormal(stddev=_STDDEV)
        options = {"initializer": initializer, "autocast": False}
        self.embedding = self.add_weight((1 + num_trained, self.dim), name="embedding", **options)
        self.fixed = None
        if num_fixed:
            shape = (num_fixed, self.dim)
            self.fixed = self.add_weight(shape, name="fixed", trainable=False, **options)

    def call(self, tokens):
        # 0 for `""`, 1 for an unknown word.
        ids = ops.cast(self.lookup(_lowered(tokens) if self.lowercase else tokens), "int32")
        # Gather each row once: optimizers square the gradients of duplicates before adding them.
        distinct, index = tf.unique(tf.reshape(ids, (-1,)))
        table = ops.convert_to_tensor(self.embedding)
        num_rows = table.shape[0]
        rows = tf.gather(table, tf.clip_by_value(distinct - 1, 0, num_rows - 1))
        if self.fixed is not None:
            is_fixed = distinct > num_rows
            fixed = tf.gather(self.fixed, tf.where(is_fixed, distinct - 1 - num_rows, 0))
            rows = tf.where(is_fixed[:, None], fixed, rows)
        rows = ops.where((distinct > 0)[:, None], ops.cast(rows, self.compute_dtype), 0)
        return tf.gather(rows, tf.reshape(index, tf.shape(ids)))

    def get_config(self):
        return {
            **super().get_config(),
            "words": list(self.words),
            "dim": self.dim,
            "lowercase": self.lowercase,
            "num_trained": self.num_trained,
        }


def word_counts(
    texts: Iterable[Sequence[str]], lowercase: bool = False
) -> collections.Counter[str]:
    """The count of each word as `WordEmbedding` looks it up. Invalid UTF-8 is left out."""
    counts = collections.Counter(token for tokens in texts for token in tokens)
    words = lookups = [word for word in counts if is_utf_8(word)]
    if lowercase and words:
        lookups = [word.decode("utf-8") for word in _lowered(words).numpy()]
    totals: collections.Counter[str] = collections.Counter()
    for lookup, word in zip(lookups, words, strict=True):
        totals[lookup] += counts[word]
    return totals


def _lowered(tokens: Any) -> tf.Tensor:
    return tf.strings.lower(tokens, encoding="utf-8")


@keras.saving.register_keras_serializable(package="elmo_tf")
class CharacterEmbedding(keras.layers.Layer):
    """Embeds tokens by their characters, with a character CNN that the task trains.

    Args:
        filters, embedding_dim, activation: see `CharCNN`. Default to 128 filters of width 3,
            character embeddings of width 16, and "relu".
        max_chars: int >= 3. See `elmo_tf.char_ids`. Defaults to 50.

    Call arguments:
        tokens: string (batch, token), padded with `""`.

    Returns:
        float (batch, token, number of filters), zeros for `""`.

    Source: Peters et al. 2018, supplement on named entities.
    """

    def __init__(
        self,
        filters: Any = ((3, 128),),
        embedding_dim: int = 16,
        activation: str = "relu",
        max_chars: int = DEFAULT_MAX_CHARS,
        **kwargs,
    ):
        super().__init__(**kwargs)
        shared = {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.char_cnn = CharCNN(filters, embedding_dim, activation, name="char_cnn", **shared)
        self._max_width = max(width for width, _ in self.char_cnn.filters)
        self.max_chars = max_chars
        self.supports_jit = False  # strings

    def build(self, input_shape):
        self.char_cnn.build((None, self.max_chars))

    def call(self, tokens):
        ids = char_ids(tokens, self.max_chars)  # (batch, token, char)
        # Encode each distinct token once. The added zeros make sure that there is a row.
        flat = tf.pad(tf.reshape(ids, (-1, self.max_chars)), [[1, 0], [0, 0]])
        distinct, index = distinct_rows(flat)
        rows = self.char_cnn(cut_characters(distinct, self._max_width))
        rows = ops.where(distinct[:, :1] > 0, rows, 0)
        return tf.gather(rows, tf.reshape(index[1:], tf.shape(ids)[:-1]))

    def get_config(self):
        of_char_cnn = self.char_cnn.get_config()
        return {
            **super().get_config(),
            **{name: of_char_cnn[name] for name in ("filters", "embedding_dim", "activation")},
            "max_chars": self.max_chars,
        }
