"""The model card of an exported model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf import __version__
from elmo_tf.saved_models.exporting.signatures import Exported
from elmo_tf.saved_models.versions import needed_operations

_MEANINGS = {
    "default": "mean of `elmo` over the tokens of a sentence, zeros for an empty sentence",
    "elmo": "mix of all layers",
    "ends": "only `text`: byte offset of the end of each token",
    "sequence_len": "number of tokens of each sentence",
    "starts": "only `text`: byte offset of the start of each token",
    "tokens": 'only `text`: the tokens, padded with ""',
    "word_emb": "context-independent vectors of the tokens",
}


def elmo_card(path: Any, exported: Exported) -> str:
    """Returns a Markdown model card of the exported biLM at `path`."""
    bilm = exported.bilm
    lstm, char_cnn = bilm.config.lstm, bilm.config.char_cnn
    is_warm = np.any(np.asarray(bilm.initial_state))
    if char_cnn is None:
        tokens = f"a vocabulary of {bilm.config.num_tokens:,} words"
    else:
        tokens = f"characters, at most {char_cnn.max_chars} ids per token"
    properties = {
        "input": tokens,
        "directions": "forward and backward" if bilm.config.bidirectional else "forward",
        "LSTM layers per direction": lstm.num_layers,
        "LSTM cells": lstm.dim,
        "vector width per direction": lstm.projection_dim,
        "vector width": bilm.config.output_dim,
        "precision of matrix products": bilm.compute_dtype,
        "initial LSTM state": "from a warm start" if is_warm else "zeros",
    }
    mixes = []
    for index, mix in enumerate(exported.mixes):
        weights, scale = mix.mixing_weights()
        mixes.append((index, ", ".join(f"{weight:.3f}" for weight in weights), f"{scale:.3f}"))
    requirements = "Only TensorFlow's own operations."
    if operations := needed_operations(path):
        requirements = (
            f"The operations {', '.join(f'`{name}`' for name in operations)} of tensorflow-text: "
            "in Python, `import tensorflow_text` before loading the model; a server must be built "
            "with them."
        )
    return model_card(
        "ELMo: contextual word vectors",
        exported,
        properties,
        lambda name: _meaning(name, exported.top_only),
        "The vectors of a token depend on its sentence; they come from all layers of a language "
        "model (Peters et al. 2018, Deep contextualized word representations).",
        # The signature of raw text has all outputs of the others.
        signature="text" if "text" in exported.signatures else "default",
        sections=(
            "## Mix",
            _table(("mix", "weights of the layers", "scale"), mixes),
            "## Server requirements",
            requirements,
        ),
    )


def model_card(
    title: str,
    exported: Any,
    properties: Mapping[str, Any],
    meaning: Callable[[str], str],
    notes: str,
    signature: str = "default",
    sections: Sequence[str] = (),
) -> str:
    """Returns a Markdown model card.

    `exported` has `variables` and `signatures`, of which `signature` has all outputs; `meaning`
    describes an output, `sections` are further paragraphs.
    """
    weights = sum(int(np.prod(variable.shape)) for variable in exported.variables)
    signatures, outputs = [], []
    for name, function in exported.signatures.items():
        if hasattr(function, "get_concrete_function"):
            function = function.get_concrete_function()
        specs = tf.nest.flatten(function.structured_input_signature)
        inputs = [f"`{s.name}`: {_type(s)}" for s in specs if isinstance(s, tf.TensorSpec)]
        signatures.append((f"`{name}`", ", ".join(inputs)))
        if name == signature:
            for output, spec in sorted(function.structured_outputs.items()):
                outputs.append((f"`{output}`", _type(spec), meaning(output)))
    paragraphs = [
        f"# {title}",
        f"Written by elmo_tf {__version__} with TensorFlow {tf.__version__}.",
        _table(("property", "value"), [*properties.items(), ("weights", f"{weights:,}")]),
        "## Signatures",
        _table(("signature", "inputs"), signatures),
        notes,
        "All signatures return these outputs:",
        _table(("output", "dtype and shape", "meaning"), outputs),
        *sections,
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _meaning(name: str, top_only: bool) -> str:
    if name.startswith("lstm_outputs"):
        return f"LSTM layer {name.removeprefix('lstm_outputs')}, both directions concatenated"
    index = name.rpartition("_")[2]
    if index.isdecimal():
        return f"the same for mix {index}"
    return "the top layer, scaled" if name == "elmo" and top_only else _MEANINGS[name]


def _type(spec: Any) -> str:
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"{spec.dtype.name} ({shape})"


def _table(head: tuple, rows: Sequence[tuple]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
