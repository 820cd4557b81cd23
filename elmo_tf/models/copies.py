"""Copies and digests of the weights of a biLM."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable

import keras

from elmo_tf.models.bilm import BiLM
from elmo_tf.text.reading import encode


def copied_bilm(bilm: BiLM, dtype: str) -> BiLM:
    """Returns a copy of a biLM, with its own weights and another Keras dtype policy."""
    refuse_adapted(bilm)
    copy = BiLM.from_config({**bilm.get_config(), "dtype": dtype})
    for target, source in zip(copy.weights, bilm.weights, strict=True):
        target.assign(source)
    copy.source = bilm.source
    return copy


def refuse_adapted(bilm: BiLM) -> None:
    """Raises `ValueError` if Keras's `quantize` or `enable_lora` has changed the weights."""
    projection = getattr(bilm.token_encoder, "projection", None)
    if projection is not None and (projection.lora_enabled or projection.quantization_mode):
        raise ValueError(
            "A biLM with quantized or LoRA weights (`quantize`, `enable_lora`) cannot be saved, "
            "copied or exported. Use the biLM as it was loaded."
        )


def model_digest(bilm: BiLM, others: Iterable[keras.Variable] = ()) -> str:
    """Returns the SHA-256 digest of the shape, vocabulary and weights of a biLM and of `others`."""
    shape = dataclasses.replace(bilm.config, tokenizer=None)  # which changes no vectors
    digest = hashlib.sha256(json.dumps(shape.to_options()).encode())
    if bilm.vocabulary is not None:  # of a biLM that reads tokens
        digest.update(json.dumps(bilm.vocabulary.tokens).encode())
    if bilm.lexicon is not None:
        entries = "\n".join((*bilm.lexicon.entries, "", *(bilm.lexicon.words or ())))
        digest.update(hashlib.sha256(encode(entries)).digest())
    for weight in [*bilm.weights, *others]:
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()
