import gzip
import importlib
import itertools
import subprocess
import sys

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from elmo_tf import Embedder
from elmo_tf.embedding.outputs.vector_output import OutputOptions
from elmo_tf.extras import MissingExtraError
from elmo_tf.pipelines import EmbeddingHandler, embed_files, run_embedding_pipeline
from vector_files import read_shards, vectors_of

pytestmark = pytest.mark.more

RUNNER = "FnApiRunner"  # "DirectRunner" first tries to download another runner
LONG = " ".join(itertools.islice(itertools.cycle(["the", "cat", "sat", "서울"]), 600))
CONLL = "the\tDT\ncat\tNN\n\na b\tNN\nx\tNN\n"
# Lines of each file; the tokens of columns may contain spaces.
LINES = {
    "a.txt": [["the", "cat", "sat"], [], [], ["\udcff", "a"], LONG.split()],
    "b.txt.gz": [["서울", "sat"], ["a"]],
    "c.conll": [["the", "cat"], ["a b", "x"]],
}
NUM_TOKENS = 600 + 3 + 2 + 3 + 4


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a.txt").write_bytes(b"the cat sat\n\n  \n\xff a\n" + LONG.encode())
    (folder / "b.txt.gz").write_bytes(gzip.compress("서울 sat\na\n".encode()))
    (folder / "c.conll").write_text(CONLL)
    return folder


@pytest.fixture(scope="module")
def run(texts, checkpoint_directory, tmp_path_factory):
    """The counts and the output folder of a run on Beam's local runner, with a relative pattern."""
    folder = tmp_path_factory.mktemp("run") / "new"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(texts)
        counts = run_embedding_pipeline(checkpoint_directory, "*", folder, batch_tokens=16)
    return counts, folder


def test_rows_contain_the_vectors_of_each_file_and_line(run, bilm):
    rows = read_shards(run[1])

    assert rows.keys() == {(name, n) for name, lines in LINES.items() for n in range(len(lines))}
    for name, lines in LINES.items():
        for number, expected in enumerate(Embedder(bilm).embed(lines)):
            found = vectors_of(rows[name, number])
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_rows_contain_the_sentences(run):
    rows = read_shards(run[1])

    assert rows["a.txt", 0]["file"] == "./a.txt"
    assert rows["a.txt", 0]["text"] == "the cat sat"
    assert rows["a.txt", 2]["text"] == ""
    assert rows["a.txt", 3]["tokens"] == ["\N{REPLACEMENT CHARACTER}", "a"]
    assert rows["c.conll", 1]["tokens"] == ["a b", "x"]


def test_the_output_contains_only_numbered_shards(run):
    names = sorted(path.name for path in run[1].iterdir())

    assert names == [f"part-{n:05d}-of-{len(names):05d}.parquet" for n in range(len(names))]


def test_sentences_tokens_and_suspicious_lines_are_counted(run):
    assert run[0] == {"sentences": 9, "tokens": NUM_TOKENS, "empty": 2, "invalid": 1}


def test_embed_files_reads_an_exported_model_and_remote_files(
    elmo, exported_elmo, remote, texts, tmp_path
):
    handler = EmbeddingHandler(remote(exported_elmo), layers="mix")
    options = OutputOptions("float16", "gzip", forget_sentences=True)
    with beam.Pipeline(RUNNER) as pipeline:
        embed_files(pipeline, remote(f"{texts}/[bc]*"), tmp_path / "shards", handler, options)

    rows = read_shards(tmp_path / "shards")
    assert rows["c.conll", 0].keys() == {"file", "line", "shape", "vectors"}
    assert rows["c.conll", 0]["file"] == remote(f"{texts}/c.conll")
    embedder = Embedder(elmo, layers="mix")
    for name in ("b.txt.gz", "c.conll"):
        for number, expected in enumerate(embedder.embed(LINES[name])):
            np.testing.assert_allclose(
                vectors_of(rows[name, number], np.float16), expected, rtol=2e-3, atol=1e-4
            )


def test_a_missing_column_error_names_the_remote_file_and_line(
    checkpoint_directory, remote, texts, tmp_path
):
    pattern = remote(f"{texts}/c.conll")

    with pytest.raises(ValueError, match=f"{pattern}, line 1: no column 3"):
        run_embedding_pipeline(checkpoint_directory, pattern, tmp_path / "out", token_column=3)


def test_a_missing_checkpoint_is_reported_with_its_path(texts, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no checkpoint .*nowhere"):
        run_embedding_pipeline(tmp_path / "nowhere", f"{texts}/*", tmp_path / "out")


@pytest.fixture
def add(texts, checkpoint_directory, tmp_path):
    """A function that adds an embedding to a pipeline, without running the pipeline."""

    def add(pattern=f"{texts}/*", output=tmp_path / "out", **kwargs):
        handler = EmbeddingHandler(checkpoint_directory)
        return embed_files(beam.Pipeline(RUNNER), pattern, output, handler, **kwargs)

    return add


def test_a_pattern_without_matching_files_raises_an_error(add, texts):
    with pytest.raises(FileNotFoundError, match=rf"No file matches {texts}/nothing"):
        add(f"{texts}/nothing*")


def test_a_folder_as_pattern_is_refused(add, texts):
    with pytest.raises(IsADirectoryError, match=rf"{texts} is a folder\. .*\*\.txt"):
        add(str(texts))


@pytest.mark.parametrize("name", ["part-00000-of-00007.parquet", "beam-temp-part-1/a.parquet"])
def test_old_shards_and_temporary_files_are_replaced_only_with_overwrite(add, tmp_path, name):
    shard = tmp_path / "out" / name
    shard.parent.mkdir(parents=True)
    shard.write_text("old")

    with pytest.raises(FileExistsError, match=r"out already contains 1 shards.*overwrite=True"):
        add()
    assert shard.read_text() == "old"

    add(overwrite=True)
    assert not shard.exists()


def test_other_parquet_files_are_never_replaced(add, tmp_path):
    other = tmp_path / "out" / "mine.parquet"
    other.parent.mkdir()
    other.touch()

    with pytest.raises(FileExistsError, match=r"contains other Parquet files.*mine\.parq"):
        add(overwrite=True)
    assert other.exists()


def test_an_output_path_with_pattern_characters_is_refused(add, tmp_path):
    with pytest.raises(ValueError, match=r"Beam cannot write to .*out\[1\]: it interprets \["):
        add(output=tmp_path / "out[1]")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"options": OutputOptions(compression="lzf")}, r"Parquet has no compression 'lzf'"),
        ({"options": OutputOptions(use_sentence_keys=True)}, r"Parquet does not support"),
        ({"token_column": 2}, r"`token_column` requires a CoNLL file; .*a\.txt is text"),
        ({"format": "csv"}, r"`format` must be one of text.*Received: 'csv'"),
    ],
)
def test_options_are_checked_before_a_run(add, kwargs, message):
    with pytest.raises(ValueError, match=message):
        add(**kwargs)


def test_without_beam_the_package_can_be_imported():
    code = "import sys; sys.modules['apache_beam'] = None; import elmo_tf.pipelines"

    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_beam_an_error_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.delitem(sys.modules, "elmo_tf.pipelines.local_copies")

    with pytest.raises(MissingExtraError, match=r"needs apache_beam.*'elmo_tf\[beam\]'"):
        importlib.import_module("elmo_tf.pipelines.local_copies")


class LosingRunner(FnApiRunner):
    """A runner that ends without an error but loses the last row, as some runners do."""

    def run_pipeline(self, pipeline, options):
        result = super().run_pipeline(pipeline, options)
        shard = sorted(self.output.glob("*.parquet"))[-1]
        table = pq.read_table(shard)
        pq.write_table(table.slice(0, len(table) - 1), shard)
        return result


def test_rows_lost_by_the_runner_raise_an_error(texts, checkpoint_directory, tmp_path, monkeypatch):
    monkeypatch.setattr(LosingRunner, "output", tmp_path / "out", raising=False)
    name = f"{LosingRunner.__module__}.{LosingRunner.__name__}"
    monkeypatch.setitem(sys.modules, LosingRunner.__module__, sys.modules[__name__])

    with pytest.raises(RuntimeError, match=r"lacks 1 of \d sentences, the first at line"):
        run_embedding_pipeline(
            checkpoint_directory,
            f"{texts}/*",
            tmp_path / "out",
            layers="top",
            pipeline_args=[f"--runner={name}"],
        )
