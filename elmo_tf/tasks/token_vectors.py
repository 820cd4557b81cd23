"""The input of task models: tokens ─► [embeddings of words and characters; ELMo]."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from elmo_tf.layers.weights import set_attributes
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.config import PLACEMENTS
from elmo_tf.text.inputs import is_token


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
        if isinstance(embeddings, keras.layers.Layer):
            raise TypeError(f"`embeddings` must be a list of layers. Received: {embeddings!r}")
        self.embeddings = list(embeddings)
        set_attributes(self, "embeddings", self.embeddings)
        self.elmo = elmo if placement != "none" else None
        self.placement = placement
        self._check()
        self.supports_jit = False  # strings

    def _check(self) -> None:
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
        elmo = None
        if self.elmo is not None:
            elmo = self._mixes(tokens, layers, mask, training)
            if self.placement in ("input", "both"):
                parts.append(elmo[0])
        vectors = {"input": ops.concatenate(parts, axis=-1), "mask": mask}
        if elmo is not None and self.placement in ("output", "both"):
            vectors["output"] = elmo[-1]
        return vectors

    def _mixes(self, tokens, layers, mask, training):
        if layers is None:
            mixed = self.elmo(tokens, training=training)
        else:
            mixed = self.elmo.of_layers(ops.cast(layers, "float32"), mask, training=training)
        return mixed if isinstance(mixed, list) else [mixed]

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
