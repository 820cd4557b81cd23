"""tokens ─► what a task model reads of them: [embeddings; ELMo], and ELMo again further up."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from elmo_tf.config import PLACEMENTS
from elmo_tf.config_checks import check_choice
from elmo_tf.models.elmo import Elmo
from elmo_tf.text.inputs import is_token


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenVectors(keras.layers.Layer):
    """Puts the vectors of a token side by side, with ELMo where it is wanted.

    Args:
        embeddings: layers from string (batch, token) to float (batch, token, feature), such as
            `WordEmbedding` and `CharacterEmbedding`.
        elmo: an `Elmo` or None.
        placement: where ELMo goes in: "input", beside the embeddings; "output", beside what the
            task's LSTM makes of them; "both", by mixes of their own if `elmo` has two, or by the
            same one; "none". Defaults to "input".

    Call arguments:
        tokens: string (batch, token), padded with `""`.
        layers: float (batch, layer, token, feature) of the biLM, if they are known already; or
            None, to compute them.
        training: bool.

    Returns:
        A dict: "input", float (batch, token, feature); "output", the same, if ELMo goes in there;
        "mask", bool (batch, token).

    Raises:
        TypeError: `elmo` is none.
        ValueError: an unknown placement, one that needs an `elmo`, or another number of mixes than
            there are places; nothing for the input.

    Source: Peters et al. 2018, section 3.3 and 5.2.
    """

    def __init__(
        self,
        embeddings: Sequence[keras.layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice(placement, "placement", PLACEMENTS)
        self.embeddings = list(embeddings)
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
            raise ValueError(f"placement {self.placement!r} needs an `elmo`, and there is none.")
        if self.elmo is not None and self.elmo.num_mixes not in (1, places):
            raise ValueError(
                f"`elmo` must have one mix, or as many as it has places: placement "
                f"{self.placement!r} has {places}. Received: {self.elmo.num_mixes} mixes."
            )
        has_elmo_in_front = self.elmo is not None and self.placement != "output"
        if not self.embeddings and not has_elmo_in_front:
            raise ValueError(
                "There is nothing to read: pass `embeddings`, or an `elmo` that goes in at the "
                "input."
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
            lengths = ops.sum(ops.cast(mask, "int32"), axis=-1)
            mixed = self.elmo(tokens, lengths=lengths, training=training)
        else:
            mixed = self.elmo.of_layers(ops.cast(layers, "float32"), mask, training=training)
        return mixed if isinstance(mixed, list) else [mixed]

    def get_config(self):
        return {
            **super().get_config(),
            "embeddings": [keras.saving.serialize_keras_object(one) for one in self.embeddings],
            "elmo": None if self.elmo is None else keras.saving.serialize_keras_object(self.elmo),
            "placement": self.placement,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**cls.restored(config))

    @staticmethod
    def restored(config: dict[str, Any]) -> dict[str, Any]:
        """A configuration with layers in place of what was saved of them."""
        restore = keras.saving.deserialize_keras_object
        return {
            **config,
            "embeddings": [restore(one) for one in config["embeddings"]],
            "elmo": config["elmo"] and restore(config["elmo"]),
        }
