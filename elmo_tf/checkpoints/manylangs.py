"""Checkpoints of ELMoForManyLangs: config.json, char.dic, word.dic and two state dicts (.pkl)."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.checkpoints.formats import OPTIONS_FILE, Checkpoint, LocalPath, Source
from elmo_tf.checkpoints.torch_pickle import read_state_dict
from elmo_tf.checkpoints.weight_files import WeightRule, read_arrays
from elmo_tf.config import BiLMConfig, CharCNNConfig, LexiconConfig, LSTMConfig
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE, Lexicon

CONFIG_FILE = "config.json"
ENCODER_FILE = "encoder.pkl"
TOKEN_EMBEDDER_FILE = "token_embedder.pkl"

# config.json names a file with the sizes of the model. No published archive contains this file, but
# all published models have the same sizes, under either name.
_PUBLISHED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_PUBLISHED_SHAPE = {
    "encoder": {"dim": 4096, "projection_dim": 512, "n_layers": 2, "cell_clip": 3, "proj_clip": 3},
    "token_embedder": {
        "activation": "relu",
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "filters": [list(pair) for pair in CharCNNConfig.filters],
        "max_characters_per_token": 50,
    },
}


class ManyLangsCheckpoint(Checkpoint):
    """A directory of ELMoForManyLangs, or a pair of its `config.json` and one of its .pkl files.

    `config.json` names a second file, with the sizes of the model, by its path at training. The
    file of that name beside `config.json` is read. If it is missing and has the name of the
    published configuration, the published values are used.
    """

    patterns = ("*.json", ENCODER_FILE, TOKEN_EMBEDDER_FILE, CHARACTERS_FILE, WORDS_FILE)

    def __init__(self, path: LocalPath, shown: Source):
        super().__init__(path, shown)
        file, shape = _shape(self.folder)
        with _errors_of(file):
            for part, kind in (("encoder", "elmo"), ("token_embedder", "cnn")):
                if (name := shape[part].get("name", kind)) != kind:
                    raise ValueError(f"the {part} {name!r} is not supported, only {kind!r}.")
            has_words = shape["token_embedder"]["word_dim"] > 0
        self._lexicon = Lexicon.load(self.folder, has_words=has_words)
        with _errors_of(file):
            self.config = _config(shape, self._lexicon)

    @classmethod
    def recognizes(cls, path: LocalPath) -> bool:
        if isinstance(path, tuple):
            return path[1].name in (ENCODER_FILE, TOKEN_EMBEDDER_FILE)
        if any((path / file).is_file() for file in (ENCODER_FILE, TOKEN_EMBEDDER_FILE)):
            return True
        # Without them, it is incomplete, or converted: then it has options.json.
        is_converted = (path / OPTIONS_FILE).is_file()
        parts = (CONFIG_FILE, CHARACTERS_FILE)
        return not is_converted and all((path / file).is_file() for file in parts)

    def lexicon(self, config: BiLMConfig) -> Lexicon:
        return self._lexicon

    def read_weights(self, config: BiLMConfig) -> dict[str, np.ndarray]:
        arrays = {}
        for file in (TOKEN_EMBEDDER_FILE, ENCODER_FILE):
            state = read_state_dict(self.folder / file)
            arrays.update({f"{file}/{key}": value for key, value in state.items()})
        rules = itertools.chain(_token_embedder_rules(config), _encoder_rules(config.lstm))
        shapes = {name: array.shape for name, array in arrays.items()}
        return read_arrays(self.folder, rules, shapes, arrays.pop)


@contextlib.contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{file}: {error} is missing.") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from None


def _shape(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The file with the sizes of the model, and its content or that of the published models."""
    path = _read_json(folder / CONFIG_FILE).get("config_path")
    if not isinstance(path, str):
        raise ValueError(f"{folder / CONFIG_FILE}: `config_path` is missing.")
    name = path.replace("\\", "/").rpartition("/")[2]
    file = folder / name
    if file.is_file():
        return file, _read_json(file)
    if name not in _PUBLISHED_NAMES:
        raise FileNotFoundError(
            f"{folder} lacks {name}, the file with the shape of the model that {CONFIG_FILE} "
            "names. Copy it from the machine where the model was trained."
        )
    return file, _PUBLISHED_SHAPE


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8-sig")))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON object: {error}") from None


def _config(shape: Mapping[str, Any], lexicon: Lexicon) -> BiLMConfig:
    encoder, embedder = shape["encoder"], shape["token_embedder"]
    sizes = LexiconConfig(lexicon.num_characters, lexicon.num_words, embedder["word_dim"])
    return BiLMConfig(
        CharCNNConfig(
            filters=embedder["filters"],
            embedding_dim=embedder["char_dim"],
            num_highway=embedder["n_highway"],
            activation=embedder["activation"],
            max_chars=embedder["max_characters_per_token"],
            lexicon=sizes,
        ),
        LSTMConfig(
            dim=encoder["dim"],
            projection_dim=encoder["projection_dim"],
            num_layers=encoder["n_layers"],
            cell_clip=encoder["cell_clip"] or None,
            proj_clip=encoder["proj_clip"] or None,
        ),
    )


def _token_embedder_rules(config: BiLMConfig) -> Iterator[WeightRule]:
    source, target = TOKEN_EMBEDDER_FILE, "token_encoder"
    cnn, lexicon = config.char_cnn, config.char_cnn.lexicon
    if lexicon.num_words:
        table, shape = f"{target}/word_embedding/embedding", (lexicon.num_words, lexicon.word_dim)
        yield WeightRule(f"{source}/word_emb_layer.embedding.weight", (table,), shape)
    table, shape = f"{target}/char_cnn/char_embedding", (lexicon.num_characters, cnn.embedding_dim)
    yield WeightRule(f"{source}/char_emb_layer.embedding.weight", (table,), shape)
    for index, (width, count) in enumerate(cnn.filters):
        name, shape = f"{source}/convolutions.{index}", (count, cnn.embedding_dim, width)
        yield _transposed(f"{name}.weight", f"{target}/char_cnn/kernel_{index}", shape)
        yield WeightRule(f"{name}.bias", (f"{target}/char_cnn/bias_{index}",), (count,))
    features = cnn.num_filters
    for index in range(cnn.num_highway):
        name = f"{source}/highways._layers.{index}"
        for suffix, kind, width in (("weight", "kernel", (features,)), ("bias", "bias", ())):
            paths = (
                f"{target}/highway/transform_{kind}_{index}",
                f"{target}/highway/carry_{kind}_{index}",
            )
            shape = (2 * features, *width)
            yield WeightRule(f"{name}.{suffix}", paths, shape, _highway_from_file)
    dim = config.lstm.projection_dim
    shape = (dim, features + lexicon.word_dim)
    yield _transposed(f"{source}/projection.weight", f"{target}/projection/kernel", shape)
    yield WeightRule(f"{source}/projection.bias", (f"{target}/projection/bias",), (dim,))


def _encoder_rules(config: LSTMConfig) -> Iterator[WeightRule]:
    dim, projection_dim = config.dim, config.projection_dim
    for direction in ("forward", "backward"):
        for layer in range(config.num_layers):
            name = f"{ENCODER_FILE}/{direction}_layer_{layer}"
            cell = f"{direction}_lstm/lstm_{layer}/cell"
            for source, kernel in (("input", "kernel"), ("state", "recurrent_kernel")):
                yield WeightRule(
                    f"{name}.{source}_linearity.weight",
                    (f"{cell}/{kernel}",),
                    (4 * dim, projection_dim),
                    lambda array: _reordered(array).T,
                )
            bias = f"{name}.state_linearity.bias"
            yield WeightRule(bias, (f"{cell}/bias",), (4 * dim,), _bias_from_file)
            if projection_dim < dim:  # as in all published models
                variable, shape = f"{cell}/projection_kernel", (projection_dim, dim)
                yield _transposed(f"{name}.state_projection.weight", variable, shape)


def _transposed(dataset: str, variable: str, shape: tuple[int, ...]) -> WeightRule:
    return WeightRule(dataset, (variable,), shape, np.transpose)


def _highway_from_file(array: np.ndarray) -> list[np.ndarray]:
    # The original's gate is the weight of the input, elmo_tf's gate the weight of the transformed
    # input: σ(-z) = 1 - σ(z).
    transform, carry = np.split(array, 2)
    return [transform.T, -carry.T]


def _reordered(array: np.ndarray) -> np.ndarray:
    """Swaps the second and third of the four gates: i, f, g, o → i, g, f, o."""
    first, second, third, fourth = np.split(array, 4)
    return np.concatenate([first, third, second, fourth])


def _bias_from_file(array: np.ndarray) -> np.ndarray:
    # elmo_tf's cell itself adds 1 at the forget gate, the third block.
    return _reordered(array) - np.repeat(np.float32([0, 0, 1, 0]), array.size // 4)
