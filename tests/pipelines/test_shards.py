import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elmo_tf.pipelines.shards import check_shards, count_of, totals, write_shard
from elmo_tf.text.sentence_files import SentenceCount

COUNT = SentenceCount(sentences=2, tokens=7, blank=1)
SCHEMA = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("vectors", pa.list_(pa.float32()))]
)


def row(file, line):
    return {"file": file, "line": line, "vectors": np.ones(3, np.float32)}


def shard(path, places):
    write_shard(path, (row(*place) for place in places), SCHEMA, "none", COUNT)
    return path


def test_a_shard_contains_its_rows_and_the_sentence_count(tmp_path):
    path = shard(tmp_path / "a.parquet", [("a", 0), ("a", 1)])

    assert pq.read_table(path).column("line").to_pylist() == [0, 1]
    assert count_of(path) == COUNT
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


def test_a_failed_write_leaves_no_file(tmp_path):
    def rows():
        yield row("a", 0)
        raise KeyError

    with pytest.raises(KeyError):
        write_shard(tmp_path / "a.parquet", rows(), SCHEMA, "none", COUNT)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [None, b"", b"PAR1", b"PAR1 no footer PAR1"])
def test_missing_and_incomplete_shards_have_no_count(tmp_path, content):
    if content is not None:
        (tmp_path / "a.parquet").write_bytes(content)

    assert count_of(tmp_path / "a.parquet") is None


def test_counts_are_added_up():
    counts = [COUNT, SentenceCount(sentences=3, tokens=5, empty=1, invalid=1)]

    expected = {"sentences": 5, "tokens": 12, "empty": 2, "invalid": 1}
    assert totals(iter(counts)) == expected


def test_complete_shards_pass_the_check_in_any_order(tmp_path):
    shards = [
        shard(tmp_path / "1", [("b", 1), ("a", 0)]),
        shard(tmp_path / "0", [("a", 2), ("b", 0), ("a", 1)]),
    ]

    check_shards(shards, {"a": 3, "b": 2, "empty": 0})


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([("a", 0), ("a", 2), ("b", 0)], r"a lacks 1 of 3 sentences, the first at line 1"),
        ([("a", 0), ("a", 1), ("a", 2)], r"b lacks 1 of 1 sentences"),
        ([("a", 0), ("a", 1), ("a", 1), ("a", 2), ("b", 0)], r"a has 1 sentences more than once"),
        ([("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0)], r"a has lines beyond its 3 sentences"),
        ([("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0)], r"1 rows of c, which is not an input"),
    ],
)
def test_missing_repeated_and_unexpected_rows_raise_an_error(tmp_path, places, message):
    path = shard(tmp_path / "0", places)

    with pytest.raises(RuntimeError, match=message):
        check_shards([path], {"a": 3, "b": 1})


def test_a_shard_that_is_passed_twice_raises_an_error(tmp_path):
    path = shard(tmp_path / "0", [("a", 0)])

    with pytest.raises(RuntimeError, match="more than once"):
        check_shards([path, path], {"a": 1})


def test_an_error_message_lists_at_most_five_problems():
    with pytest.raises(RuntimeError, match=r"e4 lacks 1 .*; and 2 more problems\."):
        check_shards([], {f"e{number}": 1 for number in range(7)})
