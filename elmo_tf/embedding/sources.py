"""BiLM, Elmo or checkpoint ─► the biLM and the mix of an `Embedder`, and their pickled states."""

from typing import Any

import keras
from absl import logging

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.models.weights import copied_bilm
from elmo_tf.precision import PRECISIONS


def bilm_and_mix(source: Any, layers: str | int, precision: str) -> tuple[BiLM, ScalarMix | None]:
    """Returns the biLM in the given precision and, for the layers "mix", the mix.

    For the arguments and errors, see `Embedder`.
    """
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


def bilm_of_state(state: Any, precision: str) -> BiLM:
    """Restores a biLM from its `layer_state`."""
    config, weights = state
    bilm = BiLM.from_config({**config, "dtype": PRECISIONS[precision]})
    bilm.set_weights(weights)
    return bilm


def mix_of_state(state: Any, bilm: BiLM) -> ScalarMix | None:
    """Restores the mix of a biLM from its `layer_state`."""
    if state is None:
        return None
    config, weights = state
    mix = _built(ScalarMix.from_config(config), bilm)
    mix.set_weights(weights)
    return mix


def _built(mix: ScalarMix, bilm: BiLM) -> ScalarMix:
    mix.build((None, bilm.config.lstm.num_layers + 1, None, None))
    return mix
