"""Two ELMoForManyLangs models give the same vectors as the original code."""

import json

import numpy as np
import pytest

from development_data import shared
from elmo_tf import Embedder, load_bilm

MODELS = ("word_char", "char_only")
# These sentences have an empty token or no tokens, which elmo_tf does not read.
ODD = ("odd: empty token", "odd: no token")


@pytest.fixture(scope="module")
def directory():
    return shared("reference", "elmoformanylangs")


@pytest.fixture(scope="module")
def sentences(directory):
    """`sentences`, each with its kind and tokens, and `carried_batches`."""
    return json.loads((directory / "sentences.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=MODELS)
def model(request, directory):
    """The folder, the vectors and the biLM of a model."""
    folder = directory / request.param
    with np.load(folder / "vectors.npz") as vectors:
        return folder, dict(vectors), load_bilm(folder)


def by_sentence(array, lengths, boundaries=0):
    """Splits (layer, token, feature) into one array per sentence."""
    return np.split(array, np.cumsum(lengths + boundaries)[:-1], axis=-2)


@pytest.mark.parametrize("name", ["all", "average", "all_with_boundaries"])
def test_vectors_match_the_original(model, sentences, name):
    folder, vectors, bilm = model
    has_boundaries = name == "all_with_boundaries"
    expected = by_sentence(vectors[name], vectors["lengths"], 2 * has_boundaries)
    with_boundaries = load_bilm(folder, keep_boundaries=True)
    embedder = Embedder(bilm, layers="average" if name == "average" else "all")

    for sentence, wanted in zip(sentences["sentences"], expected, strict=True):
        if sentence["kind"] not in ODD:
            tokens = sentence["tokens"]
            if has_boundaries:
                found = with_boundaries([tokens])["layers"][0]
            else:
                found = embedder.encode([tokens], "token")[0]
            np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=sentence["kind"])


def test_carried_states_match_the_original(model, sentences):
    folder, vectors, _ = model
    bilm = load_bilm(folder, stateful=True)
    columns = [vectors["char_ids"]]  # not strings: an empty string is padding in elmo_tf
    if "word_ids" in vectors:
        columns.insert(0, vectors["word_ids"][:, np.newaxis])
    ids = np.concatenate(columns, axis=-1).astype(np.int32) + 1
    ids = [rows[1:-1] for rows in by_sentence(ids, vectors["lengths"], 2)]

    for call, batches in enumerate(sentences["carried_batches"], start=1):
        expected = by_sentence(vectors[f"all_carried_call_{call}"], vectors["lengths"])
        for batch in batches:
            longest = max(len(ids[number]) for number in batch)
            padded = [np.pad(ids[n], [(0, longest - len(ids[n])), (0, 0)]) for n in batch]
            layers = bilm(np.stack(padded))["layers"].numpy()
            for number, found in zip(batch, layers, strict=True):
                wanted = expected[number]
                np.testing.assert_allclose(found[:, : wanted.shape[1]], wanted, atol=1e-5)
