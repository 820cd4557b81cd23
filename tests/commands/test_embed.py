"""`elmo-tf embed`: its output, its options, and how it resumes interrupted jobs."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from elmo_tf import BiLM, BiLMConfig, Embedder, save_bilm
from vector_files import read_vectors, sentence_to_index

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the cat sat .", "a dog saw the cat !", "", "this and / or that"] * 8


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_bilm(BiLM(BiLMConfig.preset("tiny")), folder)
    return folder


@pytest.mark.parametrize("source", ["text.txt", "-"])
def test_output_equals_the_vectors_of_the_embedder(command, model, stdin, source):
    stdin(Path("text.txt").read_bytes())
    status, out, _ = command("embed", model, source, "v.hdf5", "--layers", "top")

    assert (status, out) == (0, "")
    arrays = read_vectors(Path("v.hdf5"))
    assert len(arrays) == len(LINES)
    for number, expected in enumerate(Embedder(model, layers="top").embed(LINES)):
        np.testing.assert_allclose(arrays[number], expected, atol=1e-6)
    index = sentence_to_index(Path("v.hdf5"))
    assert index == {line: str(number) for number, line in enumerate(LINES)}


def test_a_dash_reads_columns_from_stdin(stdout_of, model, stdin):
    stdin(b"the D\ncat N\n\na D\n")
    stdout_of("embed", model, "-", "v.hdf5", "--input-format", "conll")
    assert [len(v[0]) for v in read_vectors(Path("v.hdf5")).values()] == [2, 1]


def test_mean_pooling_writes_one_vector_per_sentence_in_bfloat16(command, model):
    options = ("--layers", "1", "--pool", "mean", "--precision", "bfloat16")

    assert command("embed", model, "text.txt", "v.npy", *options)[0] == 0
    expected = Embedder(model, layers=1).encode(LINES)
    np.testing.assert_allclose(np.load("v.npy"), expected, atol=0.03)


def test_options_are_applied_to_the_output(stdout_of, model):
    Path("text.conllu").write_text("1\tthe\n2\tcat\n\n1-2\tit's\n1\tit\n2\t's\n")

    stdout_of(
        *("embed", model, "text.conllu", "v.parquet", "--dtype", "float16"),
        *("--forget-sentences", "--token-column", "2"),
    )
    table = pq.read_table("v.parquet")
    assert table.column_names == ["line", "shape", "vectors"]
    assert str(table.schema.field("vectors").type.value_type) == "halffloat"
    assert [shape[1] for shape in table["shape"].to_pylist()] == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".hdf5", ".parquet"])
def test_a_job_killed_ten_times_writes_the_same_vectors(model, suffix):
    draw = random.Random(suffix)
    lines = (draw.choices("abcdefghijklmnop", k=draw.randrange(30)) for _ in range(20_000))
    Path("long.txt").write_text("".join(" ".join(words) + "\n" for words in lines))
    call = [sys.executable, "-m", "elmo_tf.cli", "embed", model, "long.txt"]
    start = time.monotonic()
    subprocess.run([*call, f"whole{suffix}"], check=True, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    shards = Path(f"parts{suffix}.unfinished", "shards")

    resumed = 0
    for attempt in range(10):
        process = subprocess.Popen([*call, f"parts{suffix}"], stderr=subprocess.PIPE)
        before = sorted(shards.glob("part-*"))
        # Two of three times it is killed after it has finished a shard.
        end = time.monotonic() + (seconds if attempt % 3 else 0)
        while time.monotonic() < end and sorted(shards.glob("part-*")) == before:
            time.sleep(0.02)
        time.sleep(draw.uniform(0, seconds / 12))
        process.kill()
        resumed += b"Resuming" in process.communicate()[1]
    # The last kill may be between the move of the output and the removal of its folder.
    if not Path(f"parts{suffix}").exists() or shards.parent.exists():
        repeated = [*call, f"parts{suffix}", "--overwrite"]
        subprocess.run(repeated, check=True, stderr=subprocess.DEVNULL)

    assert resumed
    whole, parts = read_vectors(Path(f"whole{suffix}")), read_vectors(Path(f"parts{suffix}"))
    assert list(parts) == list(whole)
    for number, expected in whole.items():
        np.testing.assert_array_equal(parts[number], expected)
    assert not list(Path().glob("*.unfinished"))
