"""`elmo-tf diff` reports how an old file of vectors differs from those of a model."""

import json
import urllib.parse
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_tf import Embedder

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["The cat sat .", "A dog saw the cat !", "the dog sat .", "", "dogs", "a b c d e f g h i j"]


@pytest.fixture
def diff(command, checkpoint_directory):
    """Compares a file of vectors, or arrays, with the model; returns the status and the report."""

    def call(old, *options, text="text.txt"):
        if isinstance(old, list):
            with h5py.File("old.hdf5", "w") as file:
                for number, array in enumerate(old):
                    file[str(number)] = array
            old = "old.hdf5"
        status, out, err = command("diff", old, checkpoint_directory, text, *options)
        assert status in (0, 3), err
        return status, json.loads(out)

    return call


@pytest.fixture(scope="module")
def arrays(bilm):
    return list(Embedder(bilm).embed(LINES))


def test_differences_are_measured_and_accepted_within_the_tolerance(
    diff, arrays, command, checkpoint_directory
):
    status, found = diff(arrays)
    assert (status, found["equal"], found["sentences"], found["different"]) == (0, True, 6, 0)
    assert found["first_different"] is None
    assert [layer["layer"] for layer in found["layers"]] == [0, 1, 2]
    assert all(one["largest"] < 1e-5 and one["cosine"] > 0.9999 for one in found["layers"])

    moved = [array.copy() for array in arrays]
    moved[1][2] += 0.25
    moved[4][2] -= 0.5

    status, found = diff(moved)
    assert (status, found["equal"], found["different"]) == (3, False, 2)
    assert found["first_different"] == {
        "sentence": 1,
        "text": LINES[1],
        "difference": "token 0, 'A', in layer 2",
    }
    assert found["layers"][1]["largest"] < 1e-5
    assert found["layers"][2]["largest"] == pytest.approx(0.5, abs=1e-5)
    old, new = (np.concatenate([array[2] for array in each]) for each in (moved, arrays))
    cosines = (old * new).sum(1) / np.linalg.norm(old, axis=1) / np.linalg.norm(new, axis=1)
    assert found["layers"][2]["cosine"] == pytest.approx(cosines.mean(), abs=1e-6)
    call = ("diff", "old.hdf5", checkpoint_directory, "text.txt", "--format", "markdown")
    _, out, _ = command(*call)
    for part in ("| layer 2", "2 of 6 sentences differ", "sentence 1, 'A dog saw the cat !'"):
        assert part in out
    assert diff(moved, "--tolerance", "0.6")[1]["equal"]
    status, found = diff([*arrays, *arrays])
    assert (status, found["different"], found["more_in_file"]) == (3, 0, 6)


@pytest.mark.parametrize(
    ("change", "index", "difference"),
    [
        (lambda a: [a[0][:, :-1], *a[1:]], 0, "other tokens: 3 vectors for 4 tokens"),
        (lambda a: [a[0], a[1][:, ::-1], *a[2:]], 1, "token 0, 'A', in layer 0, where context"),
        (lambda a: [one[-1] for one in a], 0, "other layers or another model: 1 layers of 12"),
        (lambda a: a[:3], 3, "other tokens, or another order: the file does not have the sen"),
        (lambda a: [*a[:4], a[4] * np.float32(np.nan), a[5]], 4, "token 0, 'dogs', in layer 0"),
    ],
)
def test_the_first_difference_names_its_kind(diff, arrays, change, index, difference):
    status, found = diff(change(arrays))

    assert (status, found["equal"]) == (3, False)
    assert found["first_different"]["sentence"] == index
    assert found["first_different"]["difference"].startswith(difference)


@pytest.mark.parametrize("suffix", [".hdf5", ".parquet"])
def test_sentences_in_another_order_are_named(bilm, diff, suffix):
    Embedder(bilm).embed_file("text.txt", f"old{suffix}")
    assert diff(f"old{suffix}")[0] == 0
    Path("text.txt").write_text("\n".join([LINES[1], LINES[0], *LINES[2:]]))

    status, found = diff(f"old{suffix}")

    assert (status, found["different"]) == (3, 2)
    kind = "other tokens, or another order: the file has the sentence 'The cat sat .'"
    assert found["first_different"]["difference"] == kind


@pytest.mark.parametrize("lines", [["a/b  c", *LINES, *LINES, "a . / b"], ["7", "42"]])
def test_files_with_sentences_as_keys_are_read(command, checkpoint_directory, diff, lines):
    Path("text.txt").write_text("\n".join(lines) + "\n")
    embed = ("embed", checkpoint_directory, "text.txt", "old.hdf5", "--use-sentence-keys")
    assert command(*embed)[0] == 0

    status, found = diff("old.hdf5")

    assert (status, found["different"]) == (0, 0)


def test_vectors_of_fasta_are_found_by_their_identifiers(command, checkpoint_directory, diff):
    names = ["sp|P1|A", "b/23-150", "b", "3", ".", "50%2F", "//a\udcff"]
    texts = dict(zip(names, ["MKT", "AC", "W", "A", "C", "M", "K"], strict=True))
    records = [f">{name} x\n{text}\n" for name, text in texts.items()]
    Path("a.fasta").write_text("".join(records), errors="surrogateescape")
    Path("b.txt").write_text("".join(records[::-1]), errors="surrogateescape")
    embed = ("embed", checkpoint_directory, "a.fasta", "old.hdf5", "--layers", "sum")
    assert command(*embed)[0] == 0
    with h5py.File("old.hdf5") as file:
        stored = {
            data.attrs["line"]: (name, data.attrs["original_id"]) for name, data in file.items()
        }
    for line, name in enumerate(names):
        key, original = stored.pop(line)
        assert urllib.parse.unquote(key, errors="surrogateescape") == name
        assert original == name.replace("\udcff", "\ufffd")
    assert not stored

    status, found = diff("old.hdf5", "--layers", "sum", "--input-format", "fasta", text="b.txt")

    assert (status, found["different"]) == (0, 0)  # in any order of the records


def test_keys_of_elmoformanylangs_are_read(diff, bilm):
    lines = ["A dog saw the cat !", "and/or a. .", "dogs", "a $period$ b", "dogs", "U.S.A / 7"]
    Path("text.txt").write_text("\n".join(lines) + "\n")
    with h5py.File("old.hdf5", "w") as file:
        for line, array in zip(lines, Embedder(bilm).embed(lines), strict=True):
            key = "\t".join(line.split()).replace(".", "$period$").replace("/", "$backslash$")
            if key not in file:
                file[key] = array

    assert diff("old.hdf5")[0] == 0
