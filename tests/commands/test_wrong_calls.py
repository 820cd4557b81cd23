"""Wrong calls of the analyses: one line of error, the exit status, and no output."""

import json
from pathlib import Path

import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation import build_occurrence_index
from sense_files import word, write_corpus, write_inventory

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the bank raised its rates", "they sat on the wet bank"]
PROBE = ("probe", "{model}", "--train", "tags.conll")
PROBE_TEST = (*PROBE, "--test", "tags.conll")
SENSES = ("senses", "{model}", "--train", "a.data.xml", "--inventory", "senses.tsv")
SENSES_TEST = (*SENSES, "--test", "b.data.xml")
NEIGHBORS = ("neighbors", "bank", "--index", "{index}")
DIFF = ("diff", "text.txt", "{model}", "text.txt")
# Calls whose output is out.png.
WRITE_OUT = [
    ("plot", "training", "log.jsonl", "--output", "out.png"),
    ("plot", "similarity", "a", "--model", "no", "--output", "out.png"),
    ("plot", "weights", "no", "--output", "out.png"),
    ("plot", "sample-efficiency", "no", "--output", "out.png"),
    *((*call, "--json", "out.png") for call in (PROBE_TEST, SENSES_TEST, NEIGHBORS, DIFF)),
    ("compare", "run", "--json", "out.png"),
]


@pytest.fixture(scope="module")
def paths(tmp_path_factory, bilm, checkpoint_directory):
    """The model, and an index that it has built."""
    folder = tmp_path_factory.mktemp("index")
    (folder / "text.txt").write_text("\n".join(LINES))
    index = folder / "index"
    build_occurrence_index(
        Embedder(bilm), [folder / "text.txt"], index, None, checkpoint_directory.as_posix()
    )
    return {"model": checkpoint_directory, "index": index}


@pytest.fixture(autouse=True)
def files(in_temporary_folder):
    Path("tags.conll").write_text("the D\ncat N\n")
    for name in ("a", "b"):
        write_corpus(Path(f"{name}.data.xml"), [["the", word("bank", "bank", "bank%1")]])
    write_inventory(Path("senses.tsv"), "bank n bank%1")
    Path("log.jsonl").write_text(json.dumps({"step": 1, "loss": 2.0}) + "\n")
    Path("out.png").write_text("mine")
    for folder, name in (("keys", "old.layer_0.key.txt"), ("thesis", "thesis.txt")):
        Path(folder).mkdir()
        Path(folder, name).write_text("mine")


@pytest.mark.parametrize(
    ("call", "status", "message"),
    [
        (PROBE, 2, "required: --test"),
        ((*PROBE, "--test", "text.txt"), 1, "text.txt, line 2: 6 columns, but line 1"),
        ((*PROBE_TEST, "--tag-column", "3"), 1, "tags.conll, line 1: no column 3"),
        ((*PROBE_TEST, "--vectors", "x"), 2, "must be NAME=FILE, not 'x'"),
        (SENSES, 2, "name a test set (--test), or hold out a share of the training text"),
        ((*SENSES_TEST, "--predictions", "keys"), 2, "keys exists. Choose another path or add --o"),
        ((*SENSES_TEST, "--predictions", "thesis", "--overwrite"), 2, "it contains other files"),
        (("compare", "run", "./run"), 2, "a model is named twice: run ./run"),
        (("compare", "run", "--probe-test", "d"), 2, "--probe-train and --probe-test go together"),
        (("compare", "run", "--senses-train", "a"), 2, "--senses-test and --inventory go together"),
        (("neighbors", "bank", "--index", "no"), 2, "name a model (--model) and text (--corpus)"),
        (("neighbors", "--index", "{index}", "--sentence", "a"), 2, "--sentence requires a WORD"),
        ((*NEIGHBORS, "--sentence", "a b"), 1, "does not contain the token 'bank'"),
        (("neighbors", "bnak", "--index", "{index}"), 1, "Similar words: bank"),
        ((*NEIGHBORS, "--corpus", "tags.conll"), 1, "was built from other files"),
        ((*NEIGHBORS, "--vectors", "tags.conll"), 1, "tags.conll, line 1:"),
        (
            ("neighbors", "--index", "text.txt", "--model", "m", "--corpus", "c"),
            2,
            "text.txt exists",
        ),
        (("diff", "gone.hdf5", "{model}", "text.txt"), 1, "There is no file gone.hdf5"),
        (DIFF, 1, "Cannot open text.txt as HDF5"),
        ((*DIFF, "--tolerance", "0"), 2, "--tolerance"),
        (("plot",), 2, "usage: elmo-tf plot"),
        (("plot", "training", "log.jsonl"), 2, "required: --output"),
        (("plot", "similarity", "a", "--dpi", "0"), 2, "--dpi"),
        (("plot", "training", "no", "--output", "a.png"), 1, "There is no training log no"),
        (
            ("plot", "training", "log.jsonl", "--output", "a.gif"),
            1,
            "must end in one of .png, .svg",
        ),
        *((call, 2, "out.png exists. Choose another path") for call in WRITE_OUT),
    ],
)
def test_a_wrong_call_prints_an_error_and_writes_nothing(command, paths, call, status, message):
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    found, out, err = command(*(part.format(**paths) for part in call))

    assert (found, out) == (status, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
