"""ELMoForManyLangs in plain NumPy, and checkpoints with random weights in its format."""

import json

import numpy as np

SPECIALS = ("<oov>", "<bos>", "<eos>", "<pad>")
CHARACTERS = (
    *"<bos>etaciö한\u3000\U0001f600",
    "<bos>",
    "<eos>",
    "<oov>",
    "<pad>",
    "<bow>",
    "<eow>",
)
# Longer words are cut to 10 characters, as in `abcdefghij`; `zzz` has unknown characters.
WORDS = (*SPECIALS, "the", "cat", "The", "ö", "abcdefghij", "zzz")

SHAPE = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 6,
        "cell_clip": 0.6,
        "proj_clip": 0.25,
        "dim": 10,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "n_highway": 2,
        "word_dim": 3,
        "char_dim": 5,
        "filters": [[1, 2], [2, 4], [3, 7]],
        "max_characters_per_token": 12,
    },
}


def random_weights(shape, words=WORDS, seed=0):
    """Both state dicts, by the names of their files."""
    rng = np.random.default_rng(seed)
    encoder, embedder = shape["encoder"], shape["token_embedder"]
    width, dim = encoder["projection_dim"], encoder["dim"]
    features = sum(count for _, count in embedder["filters"])
    word_dim, characters = embedder["word_dim"], embedder["char_dim"]
    sizes = {"char_emb_layer.embedding.weight": (len(CHARACTERS), characters)}
    if word_dim:
        sizes["word_emb_layer.embedding.weight"] = (len(words), word_dim)
    for i, (filter_width, count) in enumerate(embedder["filters"]):
        sizes[f"convolutions.{i}.weight"] = (count, characters, filter_width)
        sizes[f"convolutions.{i}.bias"] = (count,)
    for k in range(embedder["n_highway"]):
        sizes[f"highways._layers.{k}.weight"] = (2 * features, features)
        sizes[f"highways._layers.{k}.bias"] = (2 * features,)
    sizes["projection.weight"], sizes["projection.bias"] = (width, word_dim + features), (width,)
    cells = {}
    for direction in ("forward", "backward"):
        for layer in range(encoder["n_layers"]):
            name = f"{direction}_layer_{layer}"
            cells[f"{name}.input_linearity.weight"] = (4 * dim, width)
            cells[f"{name}.state_linearity.weight"] = (4 * dim, width)
            cells[f"{name}.state_linearity.bias"] = (4 * dim,)
            cells[f"{name}.state_projection.weight"] = (width, dim)
    return {
        file: {
            name: rng.normal(0, max(size[-1], 4) ** -0.5, size).astype(np.float32)
            for name, size in names.items()
        }
        for file, names in (("token_embedder", sizes), ("encoder", cells))
    }


def write(folder, shape, weights, write_state_dict, words=WORDS):
    """Writes a checkpoint; `write_state_dict(path, state)` writes a .pkl file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, entries in (("char", CHARACTERS), ("word", words)):
        lines = [f"{entry}\t{number}\n" for number, entry in enumerate(entries)]
        (folder / f"{name}.dic").write_text("".join(lines), encoding="utf-8")
    (folder / "shape.json").write_text(json.dumps(shape))
    (folder / "config.json").write_text(json.dumps({"config_path": "/home/them/shape.json"}))
    for file, state in weights.items():
        write_state_dict(folder / f"{file}.pkl", state)


def ids(token, max_chars):
    """The id of a token, and of its characters."""
    word = token[: max_chars - 2]
    symbols = [token] if token in ("<bos>", "<eos>") else word
    known = {key: number for number, key in enumerate(CHARACTERS)}
    row = ["<eow>", *symbols, "<bow>"]
    row = [known.get(key, known["<oov>"]) for key in row]
    row += [known["<pad>"]] * (max_chars - len(row))
    return WORDS.index(word) if word in WORDS else 0, row


def layers(tokens, shape, weights):
    """The vectors of a sentence and its boundaries: (layer, token + 2, 2 · projection_dim)."""
    encoder, count = weights["encoder"], shape["encoder"]["n_layers"]
    vectors = np.stack(
        [_token_vector(token, shape, weights) for token in ("<bos>", *tokens, "<eos>")]
    )
    found = [[vectors] for _ in range(2)]
    for number, direction in enumerate(("forward", "backward")):
        step = -1 if number else 1
        inputs = vectors[::step]
        for layer in range(count):
            outputs = _lstm(inputs, encoder, f"{direction}_layer_{layer}", shape["encoder"])
            inputs = outputs + inputs if layer else outputs
            found[number].append(inputs[::step])
    return np.stack([np.concatenate(pair, axis=-1) for pair in zip(*found, strict=True)])


def _token_vector(token, shape, weights):
    state, config = weights["token_embedder"], shape["token_embedder"]
    word, row = ids(token, config["max_characters_per_token"])
    embedded = state["char_emb_layer.embedding.weight"][row]
    activation = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[config["activation"]]
    features = []
    for i, (width, _) in enumerate(config["filters"]):
        kernel = state[f"convolutions.{i}.weight"]
        windows = [
            np.einsum("nct,tc->n", kernel, embedded[start : start + width])
            for start in range(len(row) - width + 1)
        ]
        features.append(activation(np.max(windows, axis=0) + state[f"convolutions.{i}.bias"]))
    value = np.concatenate(features)
    for k in range(config["n_highway"]):
        name = f"highways._layers.{k}"
        sums = state[f"{name}.weight"] @ value + state[f"{name}.bias"]
        other, gate = np.split(sums, 2)
        gate = _sigmoid(gate)
        value = gate * value + (1 - gate) * np.maximum(other, 0)
    if config["word_dim"]:
        value = np.concatenate([state["word_emb_layer.embedding.weight"][word], value])
    return state["projection.weight"] @ value + state["projection.bias"]


def _lstm(inputs, state, name, config):
    hidden, cell = np.zeros(config["projection_dim"]), np.zeros(config["dim"])
    outputs = []
    for value in inputs:
        sums = (
            state[f"{name}.input_linearity.weight"] @ value
            + state[f"{name}.state_linearity.weight"] @ hidden
            + state[f"{name}.state_linearity.bias"]
        )
        i, f, g, o = np.split(sums, 4)
        cell = _clip(_sigmoid(f) * cell + _sigmoid(i) * np.tanh(g), config["cell_clip"])
        hidden = state[f"{name}.state_projection.weight"] @ (_sigmoid(o) * np.tanh(cell))
        hidden = _clip(hidden, config["proj_clip"])
        outputs.append(hidden)
    return np.stack(outputs)


def _clip(value, most):
    return np.clip(value, -most, most) if most else value


def _sigmoid(value):
    return 1 / (1 + np.exp(-value))
