"""Exports, read by TensorBoard."""

import json
import warnings
from urllib.parse import urlencode

import numpy as np
import pytest
from werkzeug.test import Client

from elmo_tf import Embedder
from elmo_tf.evaluation.projector import (
    TokenOccurrences,
    check_projector,
    export_projector,
    read_occurrences,
)

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = "the cat sat\n\na dog saw the cat !\nthe end\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(LINES)
    return path


@pytest.fixture
def ask():
    """Requests a folder from TensorBoard's projector; returns the bytes of the response."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "html5lib's sanitizer is deprecated", DeprecationWarning)
        from tensorboard import program
        from tensorboard.backend import application
    from tensorboard.backend.event_processing.data_ingester import LocalDataIngester
    from tensorboard.plugins.core.core_plugin import CorePluginLoader
    from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin

    def ask(logdir, route, **query):
        board = program.TensorBoard([CorePluginLoader, ProjectorPlugin])
        board.configure(logdir=str(logdir))
        runs = LocalDataIngester(board.flags).data_provider
        app = application.TensorBoardWSGIApp(board.flags, board.plugin_loaders, runs)
        answer = Client(app).get(f"/data/plugin/projector/{route}?{urlencode(query)}")
        assert answer.status_code == 200, answer.text
        return answer.data

    return ask


def metadata(folder):
    return [line.split("\t") for line in (folder / "metadata.tsv").read_text("utf-8").split("\n")]


def test_tensorboard_reads_an_export(embedder, text, tmp_path, ask):
    folder = tmp_path / "new" / "projector"
    result = export_projector(embedder, read_occurrences(text), folder)
    assert result == {"tensors": ["layer_0", "layer_1", "layer_2"], "tokens": 11, "dim": 12}

    assert json.loads(ask(folder, "runs")) == ["."]
    tensors = json.loads(ask(folder, "info", run="."))["embeddings"]
    assert [tensor["tensorName"] for tensor in tensors] == ["layer_0", "layer_1", "layer_2"]
    assert {tuple(tensor["tensorShape"]) for tensor in tensors} == {(11, 12)}
    expected = np.concatenate(list(embedder.embed(LINES.splitlines())), axis=1)
    for layer in range(3):
        numbers = np.frombuffer(ask(folder, "tensor", run=".", name=f"layer_{layer}"), "<f4")
        np.testing.assert_allclose(numbers.reshape(11, 12), expected[layer], rtol=4e-5, atol=1e-6)
    rows = ask(folder, "metadata", run=".", name="layer_1").decode().splitlines()
    assert rows[0] == "token\tcontext\tsentence\tposition"
    assert rows[2] == "cat\tthe [cat] sat\t0\t1"
    assert rows[5] == "dog\ta [dog] saw the cat !\t2\t1"
    assert len(rows) == 12


def test_tensorboard_reads_zero_vectors_as_numbers(fresh_bilm, tmp_path, ask):
    """Zero bytes are also valid UTF-8."""
    bilm = fresh_bilm()
    for weight in bilm.weights:
        weight.assign(np.zeros(weight.shape))
    folder = tmp_path / "projector"
    occurrences = [TokenOccurrences(0, ["a", "b"], [0, 1]), TokenOccurrences(1, ["c"], [0])]
    export_projector(Embedder(bilm, layers="top"), occurrences, folder)
    numbers = np.frombuffer(ask(folder, "tensor", run=".", name="top"), "<f4")
    np.testing.assert_allclose(numbers, np.zeros(36), atol=1e-40)


def test_a_mix_is_exported_as_one_tensor(elmo, text, tmp_path):
    embedder = Embedder(elmo, layers="mix")
    result = export_projector(embedder, read_occurrences(text, words=["cat"]), tmp_path / "p")
    assert result == {"tensors": ["mix"], "tokens": 2, "dim": 12}
    numbers = np.fromfile(tmp_path / "p" / "mix.bytes", "<f4").reshape(2, 12)
    first, second = embedder.embed(["the cat sat", "a dog saw the cat !"])
    np.testing.assert_allclose(numbers, [first[1], second[4]], rtol=4e-5, atol=1e-6)
    assert [row[:1] + row[2:] for row in metadata(tmp_path / "p")[1:3]] == [
        ["cat", "0", "1"],
        ["cat", "2", "4"],
    ]


def test_special_characters_of_tokens_are_escaped_in_the_metadata(embedder, tmp_path, caplog):
    path = tmp_path / "text.conll"
    path.write_bytes("a b\tX\nx\x85\u2028\x00y\tX\n".encode() + b"\xff\tX\n\rc\tX\n")
    occurrences = read_occurrences(path, format="conll", tag_column=2)
    assert len(occurrences[0].tokens) == 4
    assert "Suspicious lines: 1 with invalid UTF-8" in caplog.text
    export_projector(embedder, occurrences, tmp_path / "projector")
    rows = metadata(tmp_path / "projector")
    assert {len(row) for row in rows[:-1]} == {5}
    assert [row[0] for row in rows[1:-1]] == ["a b", r"x\x85\u2028\x00y", r"\udcff", "c"]


def test_the_context_of_a_long_sentence_is_cut(embedder, tmp_path):
    tokens = [f"t{i}" for i in range(40)]
    export_projector(embedder, [TokenOccurrences(0, tokens, [0, 15, 39])], tmp_path / "p")
    first, middle, last = (row[1] for row in metadata(tmp_path / "p")[1:4])
    assert first.startswith("[t0] t1 ")
    assert first.endswith(" t10 …")
    assert middle.startswith("… t5 ")
    assert " t14 [t15] t16 " in middle
    assert middle.endswith(" t25 …")
    assert last.endswith(" t38 [t39]")


@pytest.mark.parametrize(
    ("max_tokens", "positions", "is_warned"),
    [
        (3, [(0, [0, 1, 2])], True),
        (4, [(0, [0, 1, 2]), (2, [0])], True),
        (11, [(0, [0, 1, 2]), (2, [0, 1, 2, 3, 4, 5]), (3, [0, 1])], False),
    ],
)
def test_tokens_beyond_the_maximum_are_dropped_with_a_warning(
    text, caplog, max_tokens, positions, is_warned
):
    found = read_occurrences(text, max_tokens)
    assert [(one.number, one.positions) for one in found] == positions
    assert len(caplog.records) == is_warned
    assert (f"Only the first {max_tokens} tokens are exported" in caplog.text) == is_warned


def test_an_export_can_be_limited_to_some_words(text, caplog):
    found = read_occurrences(text, 3, words=["the", "!", "nowhere"])
    assert [(one.number, one.positions) for one in found] == [(0, [0]), (2, [3, 5])]
    assert "Only the first 3" in caplog.text


def test_invalid_arguments_are_refused(text, tmp_path):
    with pytest.raises(TypeError, match="`words` must be several tokens, not one string: 'cat'"):
        read_occurrences(text, words="cat")
    with pytest.raises(ValueError, match="`max_tokens`"):
        read_occurrences(text, 0)
    with pytest.raises(ValueError, match=r"text\.txt has none of dog , mouse\."):
        read_occurrences(text, words=["mouse", "dog "])
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(ValueError, match=r"empty\.txt has no token\."):
        read_occurrences(tmp_path / "empty.txt")


def test_a_folder_is_replaced_only_if_it_is_an_earlier_export(embedder, text, tmp_path):
    folder = tmp_path / "projector"
    occurrences = read_occurrences(text)
    export_projector(embedder, occurrences, folder)
    with pytest.raises(FileExistsError, match=r"exists\. Choose another path or add --overwrite"):
        export_projector(embedder, occurrences, folder)
    export_projector(embedder, occurrences[:1], folder, overwrite=True)
    assert len(metadata(folder)) == 5
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"contains other files: notes\.txt"):
        export_projector(embedder, occurrences, folder, overwrite=True)


def test_a_folder_name_with_wildcards_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"TensorFlow cannot write to .*wildcard"):
        check_projector(tmp_path / "run[1]")
