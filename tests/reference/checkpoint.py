"""Checkpoints with random weights, in the format of the published ones."""

import json

import h5py
import numpy as np


def options(
    activation="relu",
    filters=((1, 2), (2, 4), (3, 7)),
    n_highway=2,
    dim=10,
    projection_dim=6,
    cell_clip=0.6,
    proj_clip=0.25,
    use_skip_connections=True,
    n_layers=2,
):
    """An options.json. By default all dimensions differ, and both clips take effect."""
    return {
        "char_cnn": {
            "activation": activation,
            "embedding": {"dim": 5},
            "filters": [list(pair) for pair in filters],
            "n_highway": n_highway,
            "max_characters_per_token": 14,
            "n_characters": 262,
        },
        "lstm": {
            "dim": dim,
            "projection_dim": projection_dim,
            "n_layers": n_layers,
            "cell_clip": cell_clip,
            "proj_clip": proj_clip,
            "use_skip_connections": use_skip_connections,
        },
    }


def random_weights(options, seed=0):
    """Every dataset of the file, in float32."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(0, max(shape[0], 4) ** -0.5, shape).astype(np.float32)
        for name, shape in shapes(options).items()
    }


def shapes(options):
    """The datasets of the file and their shapes."""
    dim, width = options["lstm"]["dim"], options["lstm"]["projection_dim"]
    result = {}
    if "char_cnn" in options:
        char_cnn = options["char_cnn"]
        char_dim = char_cnn["embedding"]["dim"]
        features = sum(count for _, count in char_cnn["filters"])
        result["char_embed"] = (261, char_dim)
        for i, (filter_width, count) in enumerate(char_cnn["filters"]):
            result[f"CNN/W_cnn_{i}"] = (1, filter_width, char_dim, count)
            result[f"CNN/b_cnn_{i}"] = (count,)
        for k in range(char_cnn["n_highway"]):
            for gate in ("carry", "transform"):
                result[f"CNN_high_{k}/W_{gate}"] = (features, features)
                result[f"CNN_high_{k}/b_{gate}"] = (features,)
        if features != width:
            result["CNN_proj/W_proj"] = (features, width)
            result["CNN_proj/b_proj"] = (width,)
    for direction in range(2):
        for layer in range(options["lstm"]["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            result[f"{cell}/W_0"] = (2 * width, 4 * dim)
            result[f"{cell}/B"] = (4 * dim,)
            if width != dim:
                result[f"{cell}/W_P_0"] = (dim, width)
    return result


def write(directory, options, weights):
    """options.json and weights.hdf5."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "options.json").write_text(json.dumps(options))
    write_hdf5(directory / "weights.hdf5", weights)
    return directory


def write_hdf5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def read_hdf5(path):
    """Every dataset of a file."""
    names = []
    with h5py.File(path) as file:
        file.visit(names.append)
        return {name: file[name][()] for name in names if isinstance(file[name], h5py.Dataset)}
