"""Writes a BiLM or an Elmo as a file for ONNX Runtime, LiteRT or OpenVINO, and runs it there."""

import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.lazy import require_extra
from elmo_tf.portability import portable
from elmo_tf.saved_models.exporting.signatures import mixed_outputs, parts_of
from elmo_tf.saved_models.exporting.verify import TOLERANCES, compare, token_inputs

_Inputs = Mapping[str, np.ndarray]
_OPSET = 18  # of ONNX


class PortableModel:
    """A biLM with its mixes, as one function that other runtimes can run.

    The inputs are `char_ids`, int32 (batch, token, char), see `BiLM.char_ids`, or `token_ids`,
    int32 (batch, token), if the biLM has no character CNN; and `lengths`, int32 (batch,), the
    number of tokens of each sentence. Ids after these are ignored. The outputs are `layers`, float
    (batch, layer, token, output_dim), and `elmo`, `default` … of a SavedModel.

    Arguments and errors: see `export`. The precision is float32.
    """

    def __init__(self, source: Any):
        self.bilm, self.mixes, self.top_only = parts_of(source, "float32")
        has_characters = self.bilm.config.char_cnn is not None
        ids = ("char_ids", self.bilm.char_ids("").shape) if has_characters else ("token_ids", ())
        self.signature = [
            tf.TensorSpec((None, None, *ids[1]), tf.int32, name=ids[0]),
            tf.TensorSpec((None,), tf.int32, name="lengths"),
        ]
        self.function = tf.function(self.outputs, self.signature, autograph=False)
        weights = [*self.bilm.weights, *(weight for mix in self.mixes for weight in mix.weights)]
        self.saved = tf.train.Checkpoint(variables=[weight.value for weight in weights])

    def outputs(self, ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the outputs; portable if it is traced in the context `portable`."""
        outputs = self.bilm(ids, lengths=lengths)
        mixed = mixed_outputs(outputs["layers"], outputs["mask"], self.mixes, self.top_only)
        return {"layers": outputs["layers"], **mixed}

    def examples(self) -> dict[str, np.ndarray]:
        """Inputs of several lengths in one batch, padded with ids of a token."""
        tokens, lengths = token_inputs().values()
        if self.bilm.config.char_cnn is None:
            ids = 1 + tf.range(tf.size(tokens)) % self.bilm.config.num_tokens
            ids = tf.reshape(ids, tokens.shape)
        else:
            ids = self.bilm.char_ids(tf.where(tokens == "", tokens[0, 0], tokens))
        return {self.signature[0].name: ids.numpy(), "lengths": lengths.numpy()}


def write_for_runtime(source: Any, format: str, folder: Path) -> PortableModel:
    """Writes the file of a format to a folder, and compares its outputs with the live model."""
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}")
    file, write, run, modules = FORMATS[format]
    handlers = [*logging.root.handlers]
    for module in modules:
        require_extra(module, format, f"Export to {format}")
    logging.root.handlers[:] = handlers  # OpenVINO removes that of absl
    model = PortableModel(source)
    with portable():
        write(model, folder / file)
    inputs = model.examples()
    live = {name: value.numpy() for name, value in model.outputs(*inputs.values()).items()}
    found = run(os.fspath(folder / file), inputs)
    # Sums in float32 are exact relative to their largest terms, which are those of layer 0.
    for name in live.keys() & found.keys():
        axes = (0, 2, 3) if name == "layers" else None
        scale = np.maximum(1, np.abs(live[name]).max(axis=axes, keepdims=True))
        live[name], found[name] = live[name] / scale, found[name] / scale
    compare(file, found, live, TOLERANCES["float32"])
    return model


def _write_onnx(model: PortableModel, path: Path) -> None:
    import tf2onnx

    tf2onnx.convert.from_function(
        model.function, model.signature, opset=_OPSET, output_path=os.fspath(path)
    )


def _run_onnx(path: str, inputs: _Inputs) -> dict[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _write_litert(model: PortableModel, path: Path) -> None:
    functions = [model.function.get_concrete_function()]
    converter = tf.lite.TFLiteConverter.from_concrete_functions(functions, model.saved)
    path.write_bytes(converter.convert())


def _run_litert(path: str, inputs: _Inputs) -> dict[str, np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(path).get_signature_runner()(**inputs)


def _write_openvino(model: PortableModel, path: Path) -> None:
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(model.saved, folder, signatures=model.function)
        # Unlike `convert_model`, this sends no usage data.
        openvino.save_model(openvino.Core().read_model(folder), path, compress_to_fp16=False)


def _run_openvino(path: str, inputs: _Inputs) -> dict[str, np.ndarray]:
    import openvino

    # By default, it computes in bfloat16 on processors that can.
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    outputs = openvino.Core().compile_model(path, "CPU", exact)(dict(inputs))
    return {output.any_name: value for output, value in outputs.items()}


# The file, how to write and to run it, and the modules that are not installed with elmo_tf.
FORMATS = {
    "onnx": ("model.onnx", _write_onnx, _run_onnx, ("tf2onnx", "onnxruntime")),
    "litert": ("model.tflite", _write_litert, _run_litert, ("ai_edge_litert",)),
    "openvino": ("model.xml", _write_openvino, _run_openvino, ("openvino",)),
}
