import copy
import os
import pickle
import re
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tf.checkpoints.torch_pickle import read_state_dict
from torch_files import Tensor, legacy_file, zip_file

WRITERS = pytest.mark.parametrize("write", [legacy_file, zip_file])


def some_state(size=4):
    rng = np.random.default_rng(0)
    shapes = {"a.weight": (size, 3), "a.bias": (size,), "b.0.weight": (2, 1, size)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@WRITERS
def test_tensors_are_read_exactly_and_may_share_a_storage(write, tmp_path):
    data, state = np.arange(12, dtype=np.float32), some_state()
    rows, numbers = Tensor("7", data, (2, 3), (3, 1), 6), Tensor("7", data)
    write(tmp_path / "model.pkl", {**state, "rows": rows, "numbers": numbers})

    found = read_state_dict(tmp_path / "model.pkl")

    expected = {**state, "rows": data[6:].reshape(2, 3), "numbers": data}
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == np.float32


@WRITERS
@pytest.mark.parametrize(
    ("size", "strides", "offset"),
    [
        ((10**6, 10**6), (0, 0), 0),
        ((13,), (1,), 0),
        ((4,), (5,), 0),
        ((2,), (1,), 11),
        ((1,), (1,), 10**20),
        ((0, 10**20), (1, 1), 0),
        ((-1,), (1,), 0),
        ((2,), (-1,), 1),
        ((2, 2), (1,), 0),
        ((3, 4), (1, 3), 0),  # transposed
        ((1,) * 70, (1,) * 70, 0),
    ],
)
def test_tensors_that_are_larger_than_their_data_or_not_contiguous_are_refused(
    write, size, strides, offset, tmp_path
):
    data = np.zeros(12, np.float32)
    write(tmp_path / "model.pkl", {"huge": Tensor("0", data, size, strides, offset)})

    message = r"model\.pkl as a state.*(shape of huge does not suit|a tensor needs|contiguous)"
    with pytest.raises(ValueError, match=message):
        read_state_dict(tmp_path / "model.pkl")


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@WRITERS
def test_pickled_code_is_not_executed(write, tmp_path):
    write(tmp_path / "model.pkl", {**some_state(), "x": Evil(tmp_path / "made")})

    message = r"model\.pkl as .*: it names posix\.mkdir.*Nothing was executed"
    with pytest.raises(ValueError, match=message):
        read_state_dict(tmp_path / "model.pkl")

    assert not (tmp_path / "made").exists()
    pickle.loads(pickle.dumps(Evil(tmp_path / "made")))
    assert (tmp_path / "made").exists()  # pickle itself executes the code


EDITS = st.lists(st.tuples(st.integers(-700, 1199), st.integers(0, 255)), min_size=1, max_size=4)


@pytest.mark.more
@WRITERS
def test_damaged_files_raise_a_one_line_error_and_use_little_memory(write, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzzed") / "model.pkl"
    write(path, some_state(5_000))
    content = path.read_bytes()
    messages = []

    @settings(max_examples=1000, deadline=None, derandomize=True, database=None)
    @given(EDITS, st.floats(0, 5))
    def check(edits, keep):
        data = bytearray(content)
        for place, value in edits:  # outside of the tensor data, where damage cannot be detected
            data[place] = value
        path.write_bytes(data[: int(keep * len(data))] if keep < 1 else data)
        message, memory = error_and_memory(path)
        assert memory < 2 * len(content) + 2 * 10**6
        if message is not None:
            assert "model.pkl" in message
            assert "\n" not in message
            messages.append(message)

    check()
    assert len(set(messages)) > 10


def error_and_memory(path):
    """The error message or None, and the peak memory in bytes."""
    message = None
    tracemalloc.start()
    try:
        read_state_dict(path)
    except ValueError as error:
        message = str(error)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return message, memory


def pickle_file(path, opcodes, keys=b"]"):
    """Writes a legacy file with these opcodes as its state dict and list of storages."""
    head = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    pickles = [*(pickle.dumps(value, 2)[2:-1] for value in head), opcodes, keys]
    path.write_bytes(b"".join(b"\x80\x02" + value + b"." for value in pickles))


DEEP = b")" + b"\x85" * 100_000  # 100,000 nested tuples
WIDE = b")" + b"q\x00h\x00\x86" * 40  # a pair of equal pairs, nested 40 times
STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0kX\x03\0\0\0cpuK\x0ctQ"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
LONG = b"(" + b"K\x01" * 60_000 + b"t"  # a tuple of 60,000 ones
NAME = b"X\x40\x42\x0f\0" + b"a" * 1_000_000
REPEAT = b"R" + b"h\x01h\x03R" * 60_000


@pytest.mark.parametrize(
    ("opcodes", "message"),
    [
        (b"}" + DEEP + b"Ns", "a key of a dict is not a string"),
        (b"}(" + WIDE + b"Nu", "a key of a dict is not a string"),
        (DEEP + b")R", "'tuple' object is not callable"),
        (WIDE + b")R", "'tuple' object is not callable"),
        (DEEP + b"Q", "a storage of another kind"),
        (b"(" + WIDE + b"NNNNtQ", "a storage of another kind"),
        (REBUILD + b"(" + STORAGE + b"K\x00" + WIDE + b"h\x00tR", "a tensor needs"),
        (b"%bq\1(%bK\0%bq\2h\2tq\3" % (REBUILD, STORAGE, LONG) + REPEAT, "a tensor needs"),
        (b"K\x01" * 100_000 + b"()(t" * 100_000, "holds no tensors"),
        (b"}" * (2**20 + 1), "longer than 1,048,576 bytes"),
        (b"}r\xff\xff\xff\x7f", "holds no tensors"),
        (b"\x96" + b"\xff" * 7 + b"\0", "is damaged"),
        (b"\x82\x01", "the opcode EXT1"),
        (b"}X\x01\0\0\0a" + DEEP + b"s", "'a' in the state dict is no tensor"),
        (b"t", "pop from empty list"),
        (b"}%bNs" % NAME, "in the state dict is no tensor"),
        (b"}%b%b(%bK\0(K\1tq\1h\1tRs" % (NAME, REBUILD, STORAGE), "its storages is wrong"),
        (b"ccollections\nOrderedDict\n(](" + WIDE + b"N\x86etR", "0 positional arguments but 1"),
    ],
    ids=range(18),
)
def test_crafted_pickles_fail_fast_and_use_little_memory(opcodes, message, tmp_path):
    path = tmp_path / "model.pkl"
    pickle_file(path, opcodes)
    begin = time.process_time()

    found, memory = error_and_memory(path)

    assert re.search(rf"model\.pkl.*{message}", found)
    assert len(found) < 400
    assert memory < 100 * len(opcodes) + 2 * 10**6
    assert time.process_time() - begin < 20


def test_a_crafted_list_of_storages_is_refused(tmp_path):
    legacy_file(tmp_path / "model.pkl", some_state())
    state = (tmp_path / "model.pkl").read_bytes().split(b"\x80\x02")[4][:-1]
    pickle_file(tmp_path / "model.pkl", state, b"](" + WIDE + b"e")

    with pytest.raises(ValueError, match="the list of its storages is wrong"):
        read_state_dict(tmp_path / "model.pkl")


def test_zip_entries_that_share_their_bytes_are_refused(tmp_path):
    path = tmp_path / "model.pkl"
    zip_file(path, some_state(50_000))
    with zipfile.ZipFile(path, "a") as archive:
        (large,) = (entry for entry in archive.infolist() if entry.filename.endswith("data/0"))
        for number in range(3, 20):
            copied = copy.copy(large)
            copied.filename = f"archive/data/{number}"
            archive.filelist.append(copied)
        archive._didModify = True

    with pytest.raises(ValueError, match=r"model\.pkl as .* larger than the file"):
        read_state_dict(path)


def test_files_that_are_not_state_dicts_are_refused(tmp_path):
    path = tmp_path / "model.pkl"
    for data, message in (
        (b"", "its pickle is damaged"),
        (pickle.dumps({"a": 1}), "the opcode FRAME"),
        (pickle.dumps(3, 2) * 2, "it is of another format"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            read_state_dict(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("other/data.pkl", "", r"not one data\.pkl in a folder"),
        ("archive/byteorder", "big", "not little-endian"),
        ("archive/compressed", "a" * 99, "is compressed"),
    ],
)
def test_unsupported_zip_files_are_refused(name, content, message, tmp_path):
    zip_file(tmp_path / "model.pkl", some_state())
    with zipfile.ZipFile(tmp_path / "model.pkl") as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()} | {name: content}
    compression = zipfile.ZIP_DEFLATED if "compressed" in name else zipfile.ZIP_STORED
    with zipfile.ZipFile(tmp_path / "model.pkl", "w", compression) as archive:
        for entry, data in entries.items():
            archive.writestr(entry, data)

    with pytest.raises(ValueError, match=message):
        read_state_dict(tmp_path / "model.pkl")
