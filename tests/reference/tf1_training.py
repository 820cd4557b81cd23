"""Training directories with random weights, in the format of the original trainer."""

import json

import numpy as np
import tensorflow as tf

from elmo_tf import Vocabulary
from reference import checkpoint

TOKENS = ("<S>", "</S>", "<UNK>", "the", "cat", "sat", "on")
PREFIX = "model.ckpt-8"
OWN = ("bidirectional", "share_embedding_softmax")
# Options that the original trainer adds to the shape.
TRAINING = {
    "bidirectional": True,
    "dropout": 0.1,
    "batch_size": 3,
    "unroll_steps": 4,
    "n_negative_samples_batch": 5,
    "all_clip_norm_val": 10.0,
    "n_epochs": 1,
    "n_train_tokens": 100,
    "n_tokens_vocab": len(TOKENS),
}


def options(char_cnn=True, **changes):
    """The options.json of a training run; `changes` are shape options or training options."""
    own = {name: changes.pop(name) for name in OWN if name in changes}
    options = {**checkpoint.options(**changes), **TRAINING, **own}
    options["char_cnn"]["n_characters"] = 261
    if not char_cnn:
        del options["char_cnn"]
    return options


def weights(options, seed=0):
    """Random weights by their published names, and those of the embedding and the softmax."""
    weights = checkpoint.random_weights(options, seed)
    if not options.get("bidirectional"):
        weights = {name: array for name, array in weights.items() if "RNN_1" not in name}
    rng = np.random.default_rng(seed + 1)
    table = (len(TOKENS), options["lstm"]["projection_dim"])
    if "char_cnn" not in options:
        weights["embedding"] = rng.normal(size=table).astype(np.float32)
    if not options.get("share_embedding_softmax"):
        weights["softmax/W"] = rng.normal(size=table).astype(np.float32)
    weights["softmax/b"] = rng.normal(size=table[:1]).astype(np.float32)
    return weights


def trained_name(name, options):
    """The name of a weight in the original's graph."""
    parts = name.split("/")
    if parts[0].startswith("RNN_"):
        direction, _, _, cell, _, weight = parts
        layer = cell.removeprefix("Cell")
        weight = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}[weight]
        scope = f"{direction}/" if options.get("bidirectional") else ""
        cells = f"multi_rnn_cell/cell_{layer}/" if options["lstm"]["n_layers"] > 1 else ""
        name = f"{scope}rnn/{cells}lstm_cell/{weight}"
    return f"lm/{name}"


def save(prefix, tensors):
    """Writes arrays by name, as TensorFlow 1 does."""
    names = sorted(tensors)
    values = [tf.convert_to_tensor(tensors[name]) for name in names]
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=values
    )


def write(folder, options, weights, prefix=PREFIX):
    """Writes a training directory of the original, with everything that its trainer saves."""
    folder.mkdir(parents=True, exist_ok=True)
    variables = {trained_name(name, options): array for name, array in weights.items()}
    slots = {f"{name}/Adagrad": np.full_like(array, 9) for name, array in variables.items()}
    others = {"global_step": np.float32(8), "train_perplexity": np.float32(7)}
    save(folder / prefix, variables | slots | others)
    (folder / "options.json").write_text(json.dumps(options))
    # The original writes the path that the run had.
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "/elsewhere/{prefix}"\n')
    Vocabulary(TOKENS).save(folder / "vocab.txt")
    return folder


def published(folder, options, weights):
    """Writes the same weights in the published format."""
    kept = {name: array for name, array in weights.items() if not name.startswith("softmax")}
    embedding = kept.pop("embedding", None)
    checkpoint.write(folder, options, kept)
    if embedding is not None:
        checkpoint.write_hdf5(folder / "token_embeddings.hdf5", {"embedding": embedding})
        Vocabulary(TOKENS).save(folder / "vocab.txt")
    return folder
