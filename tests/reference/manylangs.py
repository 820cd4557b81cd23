"""ELMoForManyLangs in plain NumPy, and checkpoints with random weights in its format."""

import json

import numpy as np

from reference import lstm, token_encoder

SPECIALS = ("<oov>", "<bos>", "<eos>", "<pad>")
CHARACTERS = (
    *"<bos>etaciö한\u3000\U0001f600",
    *("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"),
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
    both = []
    for direction, step in (("forward", 1), ("backward", -1)):
        inputs, outputs_of_layers = vectors[::step], [vectors]
        for layer in range(count):
            outputs = _lstm(inputs, encoder, f"{direction}_layer_{layer}", shape["encoder"])
            inputs = outputs + inputs if layer else outputs
            outputs_of_layers.append(inputs[::step])
        both.append(outputs_of_layers)
    return np.concatenate(both, axis=-1)


def _token_vector(token, shape, weights):
    state, config = weights["token_embedder"], shape["token_embedder"]
    word, row = ids(token, config["max_characters_per_token"])
    parts = [f"convolutions.{i}" for i in range(len(config["filters"]))]
    value = token_encoder.char_cnn(
        [character + 1 for character in row],  # of which 0 is no character
        state["char_emb_layer.embedding.weight"],
        [state[f"{part}.weight"].T for part in parts],
        [state[f"{part}.bias"] for part in parts],
        config["activation"],
    )
    for k in range(config["n_highway"]):
        name = f"highways._layers.{k}"
        kernel, gate_kernel = np.split(state[f"{name}.weight"].T, 2, axis=1)
        bias, gate_bias = np.split(state[f"{name}.bias"], 2)
        # The gate is that of the input.
        value = token_encoder.highway(value, -gate_kernel, -gate_bias, kernel, bias)
    if config["word_dim"]:
        value = np.concatenate([state["word_emb_layer.embedding.weight"][word], value])
    return state["projection.weight"] @ value + state["projection.bias"]


def _lstm(inputs, state, name, config):
    """PyTorch has the gates in the order i, f, j, o, and adds no 1 to the forget gate."""
    kernels = [state[f"{name}.{part}_linearity.weight"] for part in ("input", "state")]
    i, f, j, o = np.split(np.concatenate(kernels, axis=1).T, 4, axis=1)
    b_i, b_f, b_j, b_o = np.split(state[f"{name}.state_linearity.bias"], 4)
    outputs, _, _ = lstm.sequence(
        inputs,
        np.zeros(config["projection_dim"]),
        np.zeros(config["dim"]),
        matrix=np.concatenate([i, j, f, o], axis=1),
        bias=np.concatenate([b_i, b_j, b_f - 1, b_o]),
        projection=state[f"{name}.state_projection.weight"].T,
        cell_clip=config["cell_clip"] or None,
        proj_clip=config["proj_clip"] or None,
    )
    return outputs
