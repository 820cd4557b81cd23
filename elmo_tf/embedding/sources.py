"""BiLM, Elmo or checkpoint ─► the biLM and the mix of an `Embedder`, and their pickled states."""

from typing import Any

import keras
from absl import logging

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.models.weights import copied_bilm
from elmo_tf.processors import PRECISIONS


def bilm_and_mix(source: Any, layers: str | int, precision: str) -> tuple[BiLM, ScalarMix | None]:
    """Returns the biLM in the given precision, and the mix for the layers "mix"; see `Embedder`."""
    if isinstance(source, BiLM | Elmo):
        bilm = getattr(source, "bilm", source)
    else:
        bilm = load_bilm(source, dtype=PRECISIONS[precision])
    mix = None
    if layers == "mix":
        mix = _mix_of_elmo(source) if isinstance(source, Elmo) else _built(ScalarMix(), bilm)
    if bilm.stateful:
        raise ValueError(
            "The vectors of a stateful biLM depend on earlier calls: load it with stateful=False."
        )
    if bilm.keep_boundaries:
        raise ValueError(
            "An Embedder returns vectors of tokens only: load the biLM with keep_boundaries=False."
        )
    if bilm.compute_dtype != precision:
        bilm = copied_bilm(bilm, PRECISIONS[precision])
    return bilm, mix


def _mix_of_elmo(elmo: Elmo) -> ScalarMix:
    if elmo.num_mixes > 1:
        raise ValueError(f"The Elmo must have one mix. Received: num_mixes={elmo.num_mixes}")
    if elmo.top_only:
        raise ValueError('The Elmo has no mix (top_only=True): use layers="top".')
    if not elmo.built:
        elmo.build()
    if elmo.layer_norm:
        logging.warning(
            "With layer_norm=True, the mix normalizes over the batch: the vectors of a sentence "
            "depend on the other sentences in its batch."
        )
    return elmo.mixes[0]


def layer_state(layer: keras.layers.Layer | None) -> Any:
    """The config and weights of a layer, which can be pickled."""
    return None if layer is None else (layer.get_config(), layer.get_weights())


def layers_of_states(bilm: Any, mix: Any, precision: str) -> tuple[BiLM, ScalarMix | None]:
    """Restores a biLM and its mix, if any, from their `layer_state`s."""
    config, weights = bilm
    bilm = BiLM.from_config({**config, "dtype": PRECISIONS[precision]})
    bilm.set_weights(weights)
    if mix is not None:
        config, weights = mix
        mix = _built(ScalarMix.from_config(config), bilm)
        mix.set_weights(weights)
    return bilm, mix


def _built(mix: ScalarMix, bilm: BiLM) -> ScalarMix:
    mix.build((None, bilm.config.lstm.num_layers + 1, None, None))
    return mix
