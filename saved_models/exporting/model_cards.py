"""An exported model ─► its model card, for people who find it on a server."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf import __version__
from elmo_tf.saved_models.exporting.signatures import Exported
from elmo_tf.saved_models.operations import needed_operations

_MEANINGS = {
    "default": "mean of `elmo` over the tokens of a sentence, zeros without any",
    "elmo": "mix of all layers",
    "ends": "of `text` alone: the byte of the text behind each token",
    "sequence_len": "tokens of each sentence",
    "starts": "of `text` alone: the first byte of each token",
    "tokens": 'of `text` alone: the tokens, padded with ""',
    "word_emb": "vectors of the tokens by themselves",
}


def model_card(path: str | os.PathLike, exported: Exported) -> str:
    """Markdown about a SavedModel: its shape, its signatures, and what a server needs for it.

    Args:
        path: the SavedModel.
        exported: what it was written from.
    """
    paragraphs = [
        "# ELMo: contextual vectors of words",
        "Written by elmo_tf "
        f"{__version__} with TensorFlow {tf.__version__}. Each token of a sentence gets vectors "
        "that depend on the sentence, from all layers of a language model (Peters et al. 2018, "
        "Deep contextualized word representations).",
        "## Shape",
        table(("what", "value"), _shape(exported)),
        "## Signatures",
        table(("signature", "inputs"), signature_rows(exported.signatures)),
        "All give these outputs:",
        table(("output", "dtype and shape", "meaning"), _outputs(exported)),
        *_of_mixes(exported),
        "## What a server needs",
        _needed(path),
    ]
    return "\n\n".join(paragraphs) + "\n"


def _shape(exported: Exported) -> list[tuple[str, Any]]:
    bilm = exported.bilm
    lstm, char_cnn = bilm.config.lstm, bilm.config.char_cnn
    num_weights = sum(int(np.prod(variable.shape)) for variable in exported.variables)
    warm = np.any(np.asarray(bilm.initial_state))
    tokens = (
        f"{bilm.config.num_tokens:,} whole tokens"
        if char_cnn is None
        else f"characters, at most {char_cnn.max_chars} ids a token"
    )
    return [
        ("reads", tokens),
        ("directions", "forward and backward" if bilm.config.bidirectional else "forward"),
        ("LSTM layers of a direction", lstm.num_layers),
        ("cells of an LSTM", lstm.dim),
        ("width of a direction", lstm.projection_dim),
        ("width of a vector", bilm.config.output_dim),
        ("weights", f"{num_weights:,}"),
        ("precision of products", bilm.compute_dtype),
        ("state at the start of a sentence", "of a warm start" if warm else "zeros"),
    ]


def signature_rows(signatures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """For each signature its name, and what it takes."""
    rows = []
    for name, function in signatures.items():
        if hasattr(function, "get_concrete_function"):
            function = function.get_concrete_function()
        specs = tf.nest.flatten(function.structured_input_signature)
        specs = [spec for spec in specs if isinstance(spec, tf.TensorSpec)]
        rows.append((f"`{name}`", ", ".join(f"`{spec.name}`: {type_name(spec)}" for spec in specs)))
    return rows


def _outputs(exported: Exported) -> list[tuple[str, str, str]]:
    # That of raw text has all outputs that the others have.
    name = "text" if "text" in exported.signatures else "default"
    found = exported.signatures[name].get_concrete_function().structured_outputs
    return [
        (f"`{name}`", type_name(spec), _meaning(name, exported))
        for name, spec in sorted(found.items())
    ]


def _meaning(name: str, exported: Exported) -> str:
    if name.startswith("lstm_outputs"):
        return f"LSTM layer {name.removeprefix('lstm_outputs')} of each direction"
    number = name.rpartition("_")[2]
    if number.isdecimal():
        return f"the same of mix {number}"
    if name == "elmo" and exported.top_only:
        return "the top layer, scaled"
    return _MEANINGS[name]


def _of_mixes(exported: Exported) -> list[str]:
    rows = []
    for index, mix in enumerate(exported.mixes):
        weights, scale = mix.mixing_weights()
        shares = ", ".join(f"{share:.3f}" for share in weights)
        rows.append((index, shares, f"{scale:.3f}"))
    return ["## Mix", table(("mix", "share of each layer", "scale"), rows)]


def _needed(path: str | os.PathLike) -> str:
    names = needed_operations(path)
    if not names:
        return "Nothing but TensorFlow's own operations."
    shown = ", ".join(f"`{name}`" for name in names)
    return (
        f"The operations {shown} of tensorflow-text: in Python `import tensorflow_text` before the "
        "model is loaded; a server must have been built with them."
    )


def type_name(spec: Any) -> str:
    """The dtype and shape of a tensor, for people."""
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"{spec.dtype.name} ({shape})"


def table(head: tuple, rows: list[tuple]) -> str:
    """A table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
