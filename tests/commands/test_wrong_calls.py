"""Wrong calls of all commands: one line of error before a model is loaded, and no output."""

import json
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from elmo_tf.checkpoints.formats import Checkpoint
from elmo_tf.tasks.config import TaskConfig
from sense_files import word, write_corpus, write_inventory

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the bank raised its rates", "they sat on the wet bank"]
VOCAB = ("vocab", "text.txt")
PROBE = ("probe", "{model}", "--train", "tags.conll")
PROBE_TEST = (*PROBE, "--test", "tags.conll")
SENSES = ("senses", "{model}", "--train", "a.data.xml", "--inventory", "senses.tsv")
SENSES_TEST = (*SENSES, "--test", "b.data.xml")
CORPUS = ("--model", "{model}", "--corpus", "text.txt")
NEIGHBORS = ("neighbors", "bank", *CORPUS)
DIFF = ("diff", "text.txt", "{model}", "text.txt")
TASK = ("--task", "pos", "--train", "tags.conll", "--dev", "tags.conll", "--workdir", "new")
VECTORS = ("--vectors", "old=old.hdf5")
# Calls whose output is out.png.
WRITE_OUT = [
    (*VOCAB, "--output", "out.png"),
    ("plot", "training", "log.jsonl", "--output", "out.png"),
    ("distill", "{model}", "--vocab", "vocab.txt", "--output", "out.png"),
]
DISTILL = ("distill", "{model}", "--output", "new")
TOKENIZE = ("tokenize", "--output", "new")
LITERT = ("export", "{model}", "new", "--format", "litert")
EMBED = ("embed", "{model}", "text.txt", "v.hdf5")


@pytest.fixture(autouse=True)
def files(in_temporary_folder):
    Path("tags.conll").write_text("the D\ncat N\n")
    Path("one_tag.conll").write_text("the D\n")
    Path("empty.txt").write_text("\n")
    Path("odd.txt").write_text(">P1\nMKT\n")
    Path("vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    Path("broken.data.xml").write_text("<corpus>")
    Path("broken.gold.key.txt").write_text("one bank%1\n")
    with h5py.File("old.hdf5", "w") as file:
        file["0"] = np.zeros((2, 3, 4))  # for two tokens
        file["sentence_to_index"] = [json.dumps({"the bank": "0"}).encode()]
    # No more than these files is read before a model is loaded.
    config = TaskConfig("pos", "tags.conll", "tags.conll", "plain")
    Path("plain").mkdir()
    Path("plain", "model.keras").touch()
    record = {"settings": config.as_json(), "labels": ["D", "N"]}
    Path("plain", "task.json").write_text(json.dumps(record))
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
        (VOCAB, 2, "--output requires an argument"),
        ((*VOCAB, "--output", "v.txt", "--min-count", "0"), 2, "--min-count. Must be"),
        ((*VOCAB, "--output", "v.txt", "--unknown"), 2, "Unknown option: --unknown"),
        (("vocab", "no.txt", "--output", "v.txt"), 1, "There is no text file no.txt."),
        (("train", "--corpus", "a", "--workdir", "r", "--steps", "x"), 2, "`steps`: Input should"),
        (("substitutes", "run", "the **cat**", "the cat"), 2, "mark a token of 'the cat'"),
        ((*TOKENIZE, "text.txt", "--language", "qq"), 1, "no tokenizer for the language 'qq'"),
        ((*TOKENIZE, "odd.txt", "--language", "en"), 1, "odd.txt, line 1: the text begins with"),
        (("query", "localhost:1", "a", "--timeout", "0.5"), 1, "did not answer within 0.5 s"),
        (("serve", "run", "--port", "70000"), 2, "--port. Must be <= 65535"),
        (("query", "http://localhost:1", "a"), 1, "must be host:port of the server's gRPC"),
        ((*PROBE, "--test", "text.txt"), 1, "text.txt, line 2: 6 columns, but line 1"),
        ((*PROBE_TEST, "--vectors", "x"), 2, "--vectors need unique names: NAME=FILE. Received: x"),
        ((*SENSES_TEST, "--predictions", "keys"), 2, "keys exists. Choose another path or add --o"),
        ((*SENSES_TEST, "--predictions", "thesis", "--overwrite"), 2, "it contains other files"),
        ((*NEIGHBORS, "--sentence", "a b"), 1, "The word 'bank' does not occur in the text."),
        (("neighbors", "-", *CORPUS), 1, "The word '-' does not occur in the text."),
        (("neighbors", "bank", *CORPUS[:-1]), 2, "--corpus requires at least 1 element"),
        ((*NEIGHBORS, "--layer", "3"), 1, "a number from 0 to 2. Received: 3"),
        (("diff", "gone.hdf5", "{model}", "text.txt"), 1, "There is no file of vectors gone.hdf5"),
        (DIFF, 1, "Cannot open text.txt as HDF5"),
        (("plot", "training", "no", "--output", "a.png"), 1, "There is no training log no"),
        (("plot", "training", "log.jsonl", "--output", "a.gif"), 1, "must end in one of .png, "),
        *((call, 2, "out.png exists. Choose another path") for call in WRITE_OUT),
        ((*DISTILL, "--corpus", "text.txt", "--min-count", "99"), 1, "No word occurs at least 99"),
        ((*DISTILL, "--vocab", "text.txt"), 1, "'the bank raised its rates' is not one word"),
        ((*DISTILL, "--vocab", "empty.txt"), 1, "empty.txt has no words"),
        ((*DISTILL, "--vocab", "vocab.txt", "--layers", "top"), 2, "are only for --corpus"),
        ((*EMBED, "--cluster", "auto", "--tokenize", "en"), 2, "are for one machine"),
        ((*EMBED, "--workers", "2"), 2, "need --cluster"),
        (("convert", "{model}", "new", "--warm-start", "no"), 1, "There is no text file no"),
        (("convert", "{model}", "out.png"), 2, "out.png exists and is not a directory"),
        (("convert", "{model}", "out.png/new"), 2, "/out.png'"),
        (("export", "{model}", "new", "--warmup", "empty.txt"), 1, "holds no sentence to warm up"),
        ((*LITERT, "--raw-text"), 2, "are for SavedModels, not for --format litert"),
        (("serve",), 2, "DIRECTORY requires an argument"),
        (("serve", "no", "--port", "0", "--rest-port", "0"), 1, "There is no checkpoint no"),
        ((*SENSES, "--test", "broken.data.xml"), 1, "broken.data.xml: broken XML"),
        ((*SENSES_TEST, *VECTORS), 1, "old.hdf5 must have vectors of shape"),
        ((*PROBE_TEST, *VECTORS), 1, "old.hdf5 has no vectors of the sentence 'the cat'"),
        (("task", "train", *TASK, "--elmo", "no"), 1, "There is no checkpoint no"),
        (("task", "train", *TASK, "--word-vectors", "tags.conll"), 1, "tags.conll, line 1"),
        (("embed", "plain", "text.txt", "v.hdf5", "--tokenizer"), 2, "Did you mean --tokenize?"),
        (("task", "evaluate", "plain", "one_tag.conll", "no"), 1, "directory: 'no'"),
        (("task", "predict", "plain", "no", "new"), 1, "directory: 'no'"),
        (("plot", "weights", "plain", "--output", "a.png"), 1, "plain holds a model"),
        (("plot", "weights", "no", "--output", "a.png"), 1, "no has no trained task model"),
        (("task", "sweep", *TASK, "--overwrite"), 2, "--overwrite are not for a sweep"),
        (("--debug", "embed", "--tokenize", "en"), 2, "MODEL requires an argument"),
    ],
)
def test_a_wrong_call_prints_an_error_loads_no_model_and_writes_nothing(
    command, checkpoint_directory, monkeypatch, call, status, message
):
    def load(*arguments, **options):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Checkpoint, "bilm", load)
    monkeypatch.setattr(keras.saving, "load_model", load)
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    found, out, err = command(*(part.format(model=checkpoint_directory) for part in call))

    assert (found, out) == (status, "")
    last_line = err.splitlines()[-1]
    assert message in (last_line if status == 1 else " ".join(err.split())), err
    assert last_line.startswith("elmo-tf: ")
    assert "Traceback" not in err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
