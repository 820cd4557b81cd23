"""`elmo-tf diff` names the cause in files made for that purpose."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_tf import BiLM, Embedder, load_bilm

LINES = ["the cat sat .", "a dog saw the cat !", "the dog sat .", "dogs", "a b c d e f g h i j"]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("\n".join(LINES) + "\n")


@pytest.fixture
def difference(command, checkpoint_directory):
    """Writes arrays as an old file, and gives the exit status and the report of the command."""

    def call(arrays, *options):
        with h5py.File("old.hdf5", "w") as file:
            for number, array in enumerate(arrays):
                file[str(number)] = array
        status, out, err = command("diff", "old.hdf5", checkpoint_directory, "text.txt", *options)
        assert status in (0, 3), err
        return status, json.loads(out)

    return call


@pytest.fixture(scope="module")
def arrays(bilm):
    return list(Embedder(bilm).embed(LINES))


def test_equal_vectors_are_equal(difference, arrays):
    status, found = difference(arrays)

    assert status == 0
    assert found["equal"]
    assert (found["sentences"], found["different"], "cause" in found) == (5, 0, False)
    assert len(found["layers"]) == 3
    assert all(one["largest"] < 1e-5 and one["cosine"] > 0.9999 for one in found["layers"])


def test_differences_are_measured_and_a_tolerance_accepts_them(difference, arrays):
    moved = [array.copy() for array in arrays]
    moved[1][2] += 0.25

    status, found = difference(moved)
    assert status == 3
    assert found["first_different"] == [1]
    assert found["layers"][2]["largest"] == pytest.approx(0.25, abs=1e-5)
    num_tokens = sum(len(line.split()) for line in LINES)
    assert found["layers"][2]["mean"] == pytest.approx(0.25 * 6 / num_tokens, abs=1e-5)
    assert difference(moved, "--tolerance", "0.3")[0] == 0


def other_model(bilm):
    return BiLM(bilm.config)


def carried(bilm, batches):
    """The layers of each sentence, with states carried from batch to batch."""
    stateful = BiLM.from_config({**bilm.get_config(), "stateful": True})
    stateful.set_weights(bilm.get_weights())
    for batch in batches:
        layers = stateful(batch)["layers"].numpy()
        yield from (layers[row, :, : len(line.split())] for row, line in enumerate(batch))


CAUSES = {
    "float16": (
        lambda arrays, bilm: [array.astype(np.float16) for array in arrays],
        "float16: all differences are within its rounding",
    ),
    "order": (
        lambda arrays, bilm: [arrays[k] for k in (2, 1, 0, 4, 3)],
        "a different order: sentence 0 of the file is sentence 2 of the text",
    ),
    "tokens": (
        lambda arrays, bilm: [arrays[0][:, :-1], *arrays[1:]],
        "different tokens: the file has 3 vectors for the 4 tokens of sentence 0",
    ),
    "one layer": (
        lambda arrays, bilm: [array[1] for array in arrays],
        "a different layer: the file holds layer 1",
    ),
    "layers in another order": (
        lambda arrays, bilm: [array[::-1] for array in arrays],
        "a different layer: the file holds layer 2, layer 1, layer 0",
    ),
    "average": (
        lambda arrays, bilm: [array.mean(axis=0) for array in arrays],
        "a different layer: the file holds the mean of all layers",
    ),
    "carried state": (
        lambda arrays, bilm: list(carried(bilm, [[line] for line in LINES])),
        "carried state: each sentence begins with the LSTM states that the one before left",
    ),
    "carried state, batches": (
        lambda arrays, bilm: list(carried(bilm, [LINES[:2], LINES[2:4], LINES[4:]])),
        "carried state, probably in batches",
    ),
    "another model": (
        lambda arrays, bilm: list(Embedder(BiLM(bilm.config)).embed(LINES)),
        "another model: not even layer 0",
    ),
    "another width": (
        lambda arrays, bilm: [array[..., :-1] for array in arrays],
        "another model: vectors have 11 dimensions, not 12",
    ),
    "a shorter file": (lambda arrays, bilm: arrays[:3], "another text: the file has no vectors"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_likely_cause_is_named(difference, arrays, bilm, name):
    make, cause = CAUSES[name]

    status, found = difference(make(arrays, bilm))

    assert status == 3
    assert found["cause"].startswith(cause)
    assert found["different"] >= 1


def test_a_table_is_printed_on_demand(command, checkpoint_directory, arrays):
    with h5py.File("old.hdf5", "w") as file:
        for number, array in enumerate(arrays):
            file[str(number)] = array.astype(np.float16)

    status, out, _ = command(
        *("diff", "old.hdf5", checkpoint_directory, "text.txt", "--format", "markdown")
    )

    assert status == 3
    assert "| layer 2" in out
    assert "5 of 5 sentences differ" in out
    assert "Likely cause: float16" in out


def test_what_is_no_file_of_vectors_is_an_error(command, checkpoint_directory):
    for old, message in (("gone.hdf5", "There is no file gone.hdf5"), ("text.txt", "as HDF5")):
        status, _, err = command("diff", old, checkpoint_directory, "text.txt")
        assert (status, message in err) == (1, True)


def test_files_of_the_command_itself_are_equal(command, checkpoint_directory):
    assert command("embed", checkpoint_directory, "text.txt", "old.hdf5")[0] == 0
    assert command("diff", "old.hdf5", checkpoint_directory, "text.txt")[0] == 0
    assert load_bilm(checkpoint_directory).config.lstm.num_layers == 2
