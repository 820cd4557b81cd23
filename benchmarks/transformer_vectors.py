"""Word vectors of a BERT model by ONNX Runtime, as a source for the tools of elmo_tf."""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.embedding.word_means import means_of_parts
from elmo_tf.evaluation.stored_vectors import VectorSource

_MAX_PIECES = 512
_BATCH = 64  # sentences
_GROUP = 2048  # sentences that are sorted by length


class TransformerSource(VectorSource):
    """The layers of a BERT model: the mean vector of the word pieces of each token.

    A token has a vector of zeros if it consists of control characters only, or if it is after the
    first 512 word pieces of its sentence.

    Args:
        path: a folder with `config.json`, `model.safetensors` and `tokenizer.json`.

    Attributes:
        num_parameters: number of trained parameters.
    """

    def __init__(self, path: str | os.PathLike):
        import onnxruntime
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        super().__init__(path)
        config = json.loads((self.path / "config.json").read_text("utf-8"))
        weights = load_file(self.path / "model.safetensors")
        self.num_layers, self.dim = config["num_hidden_layers"] + 1, config["hidden_size"]
        self.num_parameters = sum(w.size for w in weights.values() if w.dtype == np.float32)
        self._tokenizer = Tokenizer.from_file(str(self.path / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MAX_PIECES)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self._session = onnxruntime.InferenceSession(
            _graph(weights, config), options, providers=["CPUExecutionProvider"]
        )

    def files(self) -> list[Path]:
        return [self.path / "model.safetensors", self.path / "tokenizer.json"]

    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        sentences = iter(sentences)
        while group := list(itertools.islice(sentences, _GROUP)):
            encoded = self._tokenizer.encode_batch(
                [list(tokens) for tokens in group], is_pretokenized=True
            )
            order = sorted(range(len(group)), key=lambda k: len(encoded[k].ids))
            found: list[Any] = [None] * len(group)
            for start in range(0, len(order), _BATCH):
                batch = order[start : start + _BATCH]
                layers = self._layers([encoded[k].ids for k in batch])
                for row, k in enumerate(batch):
                    # `[CLS]` and the like are of no word.
                    words = [-1 if word is None else word for word in encoded[k].word_ids]
                    pieces = layers[:, row, : len(words)]
                    found[k] = means_of_parts(pieces, words, len(group[k]))
            yield from found

    def _layers(self, sentences: Sequence[Sequence[int]]) -> np.ndarray:
        """The vectors of word pieces, float32 (layer, sentence, piece, feature)."""
        lengths = np.array([len(ids) for ids in sentences], np.int32)
        padded = np.zeros((len(sentences), lengths.max()), np.int32)
        for row, ids in zip(padded, sentences, strict=True):
            row[: len(ids)] = ids
        return np.stack(self._session.run(None, {"ids": padded, "lengths": lengths}))


def _graph(weights: dict[str, np.ndarray], config: dict[str, Any]) -> bytes:
    """BERT as an ONNX model of ONNX Runtime's fused operators, with all layers as outputs.

    Inputs: `ids`, int32 (sentence, piece), and `lengths`, int32 (sentence,). Outputs: the
    embeddings and the output of each layer, float32 (sentence, piece, feature).
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants = [], {}

    def constant(name: str, value: np.ndarray | None = None) -> str:
        constants[name] = np.ascontiguousarray(weights[name] if value is None else value)
        return name

    def node(operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        domain = "" if operator == "MatMul" else "com.microsoft"
        output = f"output_{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def product(inputs: str, name: str) -> str:
        return node("MatMul", [inputs, constant(f"{name}.weight", weights[f"{name}.weight"].T)])

    def norm(inputs: str, residual: str, name: str) -> str:
        names = (f"{name}.LayerNorm.weight", f"{name}.LayerNorm.bias", f"{name}.dense.bias")
        return node("SkipLayerNormalization", [inputs, residual, *map(constant, names)], **epsilon)

    epsilon = {"epsilon": config["layer_norm_eps"]}
    words, positions, types, scale, bias = (
        f"embeddings.{name}"
        for name in (
            *("word_embeddings.weight", "position_embeddings.weight"),
            *("token_type_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias"),
        )
    )
    places = constant(positions, weights[positions] + weights[types][0])  # one segment
    inputs = ["ids", "", constant(words), places, "", constant(scale), constant(bias)]
    outputs = [node("EmbedLayerNormalization", inputs, **epsilon)]
    nodes[0].output.append("mask_index")  # required, not used
    for number in range(config["num_hidden_layers"]):
        layer, hidden = f"encoder.layer.{number}", outputs[-1]
        of_query = f"{layer}.attention.self.query"
        names = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        kernel = np.concatenate([weights[f"{name}.weight"].T for name in names], axis=1)
        offset = np.concatenate([weights[f"{name}.bias"] for name in names])
        inputs = [hidden, constant(f"{of_query}.weight", kernel), constant(of_query, offset)]
        heads = config["num_attention_heads"]
        attended = node("Attention", [*inputs, "lengths"], num_heads=heads)
        attended = product(attended, f"{layer}.attention.output.dense")
        attended = norm(attended, hidden, f"{layer}.attention.output")
        wide = product(attended, f"{layer}.intermediate.dense")
        wide = node("BiasGelu", [wide, constant(f"{layer}.intermediate.dense.bias")])
        outputs.append(norm(product(wide, f"{layer}.output.dense"), attended, f"{layer}.output"))
    value = helper.make_tensor_value_info
    shape = ["sentence", "piece", config["hidden_size"]]
    lengths = value("lengths", TensorProto.INT32, shape[:1])
    graph = helper.make_graph(
        nodes,
        "bert",
        [value("ids", TensorProto.INT32, shape[:2]), lengths],
        [value(output, TensorProto.FLOAT, shape) for output in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    operators = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=operators, ir_version=9).SerializeToString()
