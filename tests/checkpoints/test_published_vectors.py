"""A published checkpoint gives its published vectors, in ten stateful batches."""

import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from development_data import shared
from elmo_tf import load_bilm

pytestmark = pytest.mark.usefixtures("optimized_graphs")

NUM_BATCHES, NUM_ROWS = 10, 3


def check(outputs, batch, expected):
    top = outputs["layers"][:, -1].numpy()
    for row, (tokens, vectors) in enumerate(zip(batch, expected, strict=True)):
        np.testing.assert_allclose(top[row, : len(tokens)], vectors, rtol=1e-5, atol=1e-6)


def test_ten_stateful_batches_give_the_published_vectors():
    named = os.environ.get("ELMO_TF_REFERENCE")
    directory = Path(named) if named else shared("reference", "bilm_tf")
    texts = json.loads((directory / "lm_embeddings_sentences.json").read_text(encoding="utf-8"))
    batches = [[texts[row][i].split() for row in range(NUM_ROWS)] for i in range(NUM_BATCHES)]
    rows = []  # (token, feature) of each batch, forward and backward concatenated
    for row in range(NUM_ROWS):
        with h5py.File(directory / f"lm_embeddings_{row}.hdf5") as file:
            rows.append([np.concatenate(file[str(i)][()], axis=-1) for i in range(NUM_BATCHES)])
    vectors = list(zip(*rows, strict=True))
    files = directory / "options.json", directory / "lm_weights.hdf5"
    stateful, stateless = load_bilm(files, stateful=True), load_bilm(directory)

    for batch, expected in zip(batches, vectors, strict=True):
        check(stateful(batch), batch, expected)
    for _ in range(2):
        check(stateless(batches[0]), batches[0], vectors[0])
