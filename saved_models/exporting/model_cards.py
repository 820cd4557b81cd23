"""The model card of an exported model."""

import os
from collections.abc import Mapping
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


def model_card(path: str | os.PathLike, exported: Exported) -> str:
    """Returns a Markdown model card of the SavedModel at `path`."""
    paragraphs = [
        "# ELMo: contextual word vectors",
        "Written by elmo_tf "
        f"{__version__} with TensorFlow {tf.__version__}. The vectors of a token depend on its "
        "sentence; they come from all layers of a language model (Peters et al. 2018, Deep "
        "contextualized word representations).",
        "## Configuration",
        table(("property", "value"), _configuration(exported)),
        "## Signatures",
        table(("signature", "inputs"), signature_rows(exported.signatures)),
        "All signatures return these outputs:",
        table(("output", "dtype and shape", "meaning"), _outputs(exported)),
        "## Mix",
        table(("mix", "weights of the layers", "scale"), _mixes(exported)),
        "## Server requirements",
        _requirements(path),
    ]
    return "\n\n".join(paragraphs) + "\n"


def _configuration(exported: Exported) -> list[tuple[str, Any]]:
    bilm = exported.bilm
    lstm, char_cnn = bilm.config.lstm, bilm.config.char_cnn
    num_weights = sum(int(np.prod(variable.shape)) for variable in exported.variables)
    warm = np.any(np.asarray(bilm.initial_state))
    tokens = (
        f"a vocabulary of {bilm.config.num_tokens:,} words"
        if char_cnn is None
        else f"characters, at most {char_cnn.max_chars} ids per token"
    )
    return [
        ("input", tokens),
        ("directions", "forward and backward" if bilm.config.bidirectional else "forward"),
        ("LSTM layers per direction", lstm.num_layers),
        ("LSTM cells", lstm.dim),
        ("vector width per direction", lstm.projection_dim),
        ("vector width", bilm.config.output_dim),
        ("weights", f"{num_weights:,}"),
        ("precision of matrix products", bilm.compute_dtype),
        ("initial LSTM state", "from a warm start" if warm else "zeros"),
    ]


def signature_rows(signatures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns a table row per signature: its name and its inputs."""
    rows = []
    for name, function in signatures.items():
        if hasattr(function, "get_concrete_function"):
            function = function.get_concrete_function()
        specs = tf.nest.flatten(function.structured_input_signature)
        specs = [spec for spec in specs if isinstance(spec, tf.TensorSpec)]
        rows.append((f"`{name}`", ", ".join(f"`{spec.name}`: {type_name(spec)}" for spec in specs)))
    return rows


def _outputs(exported: Exported) -> list[tuple[str, str, str]]:
    # The signature of raw text has all outputs of the others.
    name = "text" if "text" in exported.signatures else "default"
    found = exported.signatures[name].get_concrete_function().structured_outputs
    return [
        (f"`{name}`", type_name(spec), _meaning(name, exported))
        for name, spec in sorted(found.items())
    ]


def _meaning(name: str, exported: Exported) -> str:
    if name.startswith("lstm_outputs"):
        return f"LSTM layer {name.removeprefix('lstm_outputs')}, both directions concatenated"
    number = name.rpartition("_")[2]
    if number.isdecimal():
        return f"the same for mix {number}"
    if name == "elmo" and exported.top_only:
        return "the top layer, scaled"
    return _MEANINGS[name]


def _mixes(exported: Exported) -> list[tuple[int, str, str]]:
    rows = []
    for index, mix in enumerate(exported.mixes):
        weights, scale = mix.mixing_weights()
        rows.append((index, ", ".join(f"{weight:.3f}" for weight in weights), f"{scale:.3f}"))
    return rows


def _requirements(path: str | os.PathLike) -> str:
    names = needed_operations(path)
    if not names:
        return "Only TensorFlow's own operations."
    shown = ", ".join(f"`{name}`" for name in names)
    return (
        f"The operations {shown} of tensorflow-text: in Python, `import tensorflow_text` before "
        "loading the model; a server must be built with them."
    )


def type_name(spec: Any) -> str:
    """Formats the dtype and shape of a tensor."""
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"{spec.dtype.name} ({shape})"


def table(head: tuple, rows: list[tuple]) -> str:
    """Formats a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
