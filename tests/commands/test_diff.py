"""`elmo-tf diff` reports the cause of a difference, in files made for each cause."""

import json
import operator
import re
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from elmo_tf import BiLM, Embedder
from elmo_tf.embedding.vector_output import mean_over_tokens
from elmo_tf.evaluation import differences
from elmo_tf.evaluation.stored_vectors import OldVectors

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["The cat sat .", "A dog saw the cat !", "the dog sat .", "", "dogs", "a b c d e f g h i j"]


@pytest.fixture
def difference(bilm):
    """Writes arrays as an old file, and compares it with the biLM."""

    def call(arrays, **options):
        with h5py.File("old.hdf5", "w") as file:
            for number, array in enumerate(arrays):
                file[str(number)] = array
        sentences = [line.split() for line in Path("text.txt").read_text().splitlines()]
        return differences.compare_vectors(OldVectors("old.hdf5"), bilm, sentences, **options)

    return call


@pytest.fixture
def diff(command, checkpoint_directory):
    """Calls the command; returns its status and its report."""

    def call(old):
        status, out, err = command("diff", old, checkpoint_directory, "text.txt")
        assert status in (0, 3), err
        return status, json.loads(out)

    return call


@pytest.fixture(scope="module")
def arrays(bilm):
    return list(Embedder(bilm).embed(LINES))


def test_differences_are_measured_and_accepted_within_the_tolerance(
    difference, arrays, command, checkpoint_directory
):
    found = difference(arrays)
    assert (found["equal"], found["sentences"], found["different"]) == (True, 6, 0)
    assert len(found["layers"]) == 3
    assert all(one["largest"] < 1e-5 and one["cosine"] > 0.9999 for one in found["layers"])

    moved = [array.copy() for array in arrays]
    moved[1][2] += 0.25

    found = difference(moved)
    assert found["first_different"] == [1]
    assert found["layers"][2]["largest"] == pytest.approx(0.25, abs=1e-5)
    num_tokens = sum(len(line.split()) for line in LINES)
    assert found["layers"][2]["mean"] == pytest.approx(0.25 * 6 / num_tokens, abs=1e-5)
    call = ("diff", "old.hdf5", checkpoint_directory, "text.txt", "--format", "markdown")
    status, out, _ = command(*call)
    assert status == 3
    for part in ("| layer 2", "1 of 6 sentences differ (the first: 1)", "\n- other states or wei"):
        assert part in out
    assert difference(moved, tolerance=0.3)["equal"]


def carried(bilm, size):
    """The layers of each sentence, with states carried between batches of `size` sentences."""
    stateful = BiLM.from_config({**bilm.get_config(), "stateful": True})
    stateful.set_weights(bilm.get_weights())
    for start in range(0, len(LINES), size):
        batch = LINES[start : start + size]
        layers = stateful(batch)["layers"].numpy()
        yield from (layers[row, :, : len(line.split())] for row, line in enumerate(batch))


def one_by_one(arrays, bilm):
    return carried(bilm, 1)


def in_batches(arrays, bilm):
    return carried(bilm, 2)


def moved(arrays, bilm):
    return [arrays[k] for k in (2, 1, 0, 3, 5, 4)]


def lower_cased(arrays, bilm):
    return Embedder(bilm).embed([line.lower() for line in LINES])


top = operator.itemgetter(-1)
average = operator.methodcaller("mean", axis=0)
total = operator.methodcaller("sum", axis=0)
float16 = operator.methodcaller("astype", np.float16)


def bfloat16(array):
    return array.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32)


CARRIED = "carried state, batch size 1: a sentence begins with the last LSTM states of the "
BATCHES = "carried state, batch size 2: a sentence begins"
LAYER = "a different layer: the file holds "
TOP, AVERAGE = f"{LAYER}layer 2", f"{LAYER}the mean of all layers"
SUM = f"{LAYER}the sum of all layers"
FLOAT16 = "float16: differences are within its rounding"
BFLOAT16 = "bfloat16: differences are within its rounding"
MEANS = "sentence means: the file has one vector per sentence"
TOKENS = "different tokens, or sentences in another order: the f"
TOKEN = f"{TOKENS}irst is token 0 of sentence 0, which is 'The' in the text"
# Functions that change all arrays or each array of a file, and the causes to report.
CAUSES = [
    ([float16], [FLOAT16]),
    ([bfloat16], [BFLOAT16]),
    ([moved], [TOKEN]),
    ([lambda arrays, bilm: [arrays[0][:, :-1], *arrays[1:]]], [f"{TOKENS}ile has 3 vectors"]),
    ([lower_cased], [TOKEN]),
    ([lower_cased, top], [TOP, f"{TOKENS}irst are in sentence 0"]),
    ([lambda array: array[::-1]], [f"{LAYER}layer 2, layer 1, layer 0"]),
    ([average], [AVERAGE]),
    ([mean_over_tokens], [MEANS]),
    ([total, mean_over_tokens], [SUM, MEANS]),
    ([one_by_one], [CARRIED]),
    ([in_batches], [BATCHES]),
    ([one_by_one, average, float16], [AVERAGE, CARRIED, FLOAT16]),
    ([one_by_one, mean_over_tokens], [MEANS, CARRIED]),
    ([in_batches, top, float16], [TOP, BATCHES, FLOAT16]),
    ([lower_cased, float16], [FLOAT16, TOKEN]),
    ([lambda array: array * np.float32(1 + 2**-12)], [FLOAT16]),
    ([lambda arrays, bilm: Embedder(BiLM(bilm.config)).embed(LINES)], ["another model, or sent"]),
    ([lambda array: array[..., :-1]], ["another model: vectors have 11 dimensions, not 12"]),
    (
        [lambda arrays, bilm: arrays[:3], float16],
        ["another text: the file has no vectors of sentence 3", FLOAT16],
    ),
    ([lambda arrays, bilm: arrays * 2], ["another text: the file has 6 more sentences"]),
    (
        [lambda arrays, bilm: [*arrays[:-1], arrays[-1] * np.float32(np.nan)]],
        ["NaN or infinite values: the first are in sentence 5"],
    ),
]


@pytest.mark.parametrize(("steps", "causes"), CAUSES)
def test_all_likely_causes_are_reported(difference, arrays, bilm, steps, causes):
    for step in steps:
        takes_all = getattr(step, "__code__", None) and step.__code__.co_argcount == 2
        arrays = list(step(arrays, bilm)) if takes_all else list(map(step, arrays))

    found = difference(arrays)

    assert len(found["causes"]) == len(causes), found["causes"]
    assert all(map(str.startswith, found["causes"], causes)), found["causes"]
    assert not found["equal"]


def test_differences_after_the_examined_sentences_have_an_unknown_cause(
    difference, arrays, monkeypatch
):
    monkeypatch.setattr(differences, "_EXAMINED", 2)

    found = difference([*arrays[:-1], arrays[-1] + 1])

    assert found["causes"] == ["unknown: the first 2 sentences are equal"]
    Path("text.txt").write_text("")
    assert difference(arrays)["causes"] == ["another text: the file has 6 more sentences"]


@pytest.mark.parametrize("lines", [["a/b  c", *LINES, *LINES, "a . / b"], ["7", "42"]])
def test_files_with_sentences_as_keys_are_read(command, checkpoint_directory, diff, lines):
    Path("text.txt").write_text("\n".join(lines) + "\n")
    embed = ("embed", checkpoint_directory, "text.txt", "old.hdf5", "--use-sentence-keys")
    assert command(*embed)[0] == 0

    status, found = diff("old.hdf5")

    assert (status, found["causes"]) == (0, [])


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet"])
def test_vectors_of_fasta_are_named_by_identifiers_and_found_by_them(
    command, checkpoint_directory, suffix
):
    texts = {"sp|P1|A": "M K T", "b/2": "A C", "3": "W"}
    records = [f">{name} x\n{text.replace(' ', '')}\n" for name, text in texts.items()]
    Path("a.fasta").write_text("".join(records))
    Path("b.txt").write_text("".join(records[::-1]))
    old = f"old{suffix}"
    assert command("embed", checkpoint_directory, "a.fasta", old, "--layers", "sum")[0] == 0
    if suffix == ".parquet":
        assert pq.read_table(old)["identifier"].to_pylist() == list(texts)
        return
    with h5py.File(old) if suffix == ".hdf5" else np.load(old) as file:
        assert len(file) == 3
        assert all(name in file for name in texts)

    status, out, _ = command(
        *("diff", old, checkpoint_directory, "b.txt", "--input-format", "fasta")
    )
    assert (status, json.loads(out)["causes"]) == (3, [SUM])  # in any order of the records


@pytest.mark.parametrize(
    ("suffix", "layers", "causes"),
    [("npz", "all", []), ("npy", "top", [TOP]), ("parquet", "all", [])],
)
def test_all_formats_of_embed_are_read(diff, bilm, suffix, layers, causes):
    Embedder(bilm, layers=layers).embed_file("text.txt", f"old.{suffix}")

    status, found = diff(f"old.{suffix}")

    assert (status, found["causes"]) == (3 if causes else 0, causes)
    assert found["layers"][-1]["largest"] < 1e-5
    sentences = [line.split() for line in LINES]
    found = differences.compare_vectors(OldVectors(f"old.{suffix}"), bilm, sentences[:2])
    assert "another text: the file has 4 more sentences" in found["causes"]
    Embedder(bilm).embed_file("text.txt", f"means.{suffix}", pool="mean", dtype="float16")
    found = differences.compare_vectors(OldVectors(f"means.{suffix}"), bilm, sentences)
    assert found["causes"] == [MEANS, FLOAT16]


def test_keys_of_elmoformanylangs_are_read(diff, bilm):
    lines = ["A dog saw the cat !", "and/or a. .", "dogs", "a $period$ b", "dogs", "U.S.A / 7"]
    Path("text.txt").write_text("\n".join(lines) + "\n")
    with h5py.File("old.hdf5", "w") as file:
        for line, array in zip(lines, Embedder(bilm).embed(lines), strict=True):
            key = "\t".join(line.split()).replace(".", "$period$").replace("/", "$backslash$")
            if key not in file:
                file[key] = array

    status, found = diff("old.hdf5")

    assert (status, found["causes"]) == (0, [])


def test_missing_and_invalid_vector_files_are_errors(bilm, locked):
    h5py.File("old.hdf5", "w").close()
    with (
        locked("old.hdf5"),
        pytest.raises(BlockingIOError, match=r"^old\.hdf5 is open for writing"),
    ):
        OldVectors("old.hdf5")
    for name in ("cut.npz", "cut.npy"):
        Embedder(bilm).embed_file("text.txt", name)
        Path(name).write_bytes(Path(name).read_bytes()[:50])
    for old, message in (
        ("text.txt", "Cannot open text.txt as HDF5"),
        ("cut.npz", "Cannot read vectors in cut.npz: "),
        ("cut.npy", "Cannot read vectors in cut.npy: "),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            OldVectors(old)
