"""Small files that would fill the memory, or write outside their folder, are refused at once."""

import io
import json
import re
import tarfile
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_tf import load_bilm
from reference import checkpoint

LARGE = 10**30
OPTIONS = {  # a part of options.json, what replaces it, and the message
    "layers": ('"n_layers": 2', '"n_layers": 2000', "lacks `RNN_0/.*/Cell2/LSTMCell/W_0`"),
    "endless": ('"n_layers": 2', f'"n_layers": {LARGE}', "lacks `RNN_0/.*/Cell2/LSTMCell/W_0`"),
    "highways": ('"n_highway": 2', '"n_highway": 1000000', "lacks `CNN_high_2/W_carry`"),
    "filters": ("[1, 2]", f"[1, {LARGE}]", "`CNN/W_cnn_0`.* the model expects"),
    "dim": ('"dim": 10', f'"dim": {LARGE}', r"`RNN_0/.*/W_0`.* has \(12, 40\), .* \(12, 40{30}\)"),
    "embedding": ('"dim": 5', f'"dim": {LARGE}', "`char_embed`.* the model expects"),
    "width": ("[1, 2]", f"[{LARGE}, 1]", r"max_characters_per_token` must be at least"),
    "characters": ("14", f"{LARGE}", "max_characters_per_token`: .* less than or equal to 10000"),
    "digits": ('"dim": 10', '"dim": 1' + "0" * 5_000, "Invalid JSON: number out of range"),
    "brackets": ("[1, 2]", "[" * 100_000, "Invalid JSON: recursion limit exceeded"),
    "infinity": ("0.6", "1e999", r"`lstm\.cell_clip`: Input should be a finite number"),
    "words": ('"char_cnn"', f'"n_tokens_vocab": {LARGE}, "none"', "lacks `embedding`"),
}


def decompressed(file):
    zeros = np.zeros((261, 2 * 10**5), np.int8)
    file.create_dataset("char_embed", data=zeros, dtype="f4", compression="gzip")


def linked(file):
    for i in range(2, 1_000):
        file[f"RNN_0/RNN/MultiRNNCell/Cell{i}"] = file["RNN_0/RNN/MultiRNNCell/Cell0"]


TOO_LONG = r"up to `char_embed` are %s,\S+ bytes long, but the file only"
WEIGHTS = [
    (
        lambda file: file.create_dataset("char_embed", (261, 2**43), "f4", chunks=(1, 1_000)),
        TOO_LONG % 9,
    ),
    (decompressed, TOO_LONG % 208),
    (lambda file: file.create_dataset("char_embed", data=h5py.Empty("f4")), r"\(\), the model exp"),
    (linked, r"The links in .* at `RNN_0/\S+` do not end"),
    (lambda file: file.create_group("CNN" + "/a" * 1_000), r"The links in .* `CNN/\S+` do not end"),
]


def tar(kind=tarfile.REGTYPE, name="elmo/more", size=0):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.size, member.linkname = kind, size, "elmo/options.json"
        archive.addfile(member, io.BytesIO(bytes(size)))
    return content.getvalue()


def zipped(size):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("more", bytes(size))
    return content.getvalue()


NO_FILE, EXPANDED = "is neither a file nor a folder", "more than 100 times as large as it"
KINDS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE)
ARCHIVES = [
    *((tar(kind), NO_FILE) for kind in KINDS),
    (tar(name="../../more"), r"\.\./\.\./more"),
    (tar(size=10**7), EXPANDED),
    (zipped(10**7), EXPANDED),
    (tar()[:-20], "Compressed file ended"),
    (zipped(9)[:-20], "not a zip file"),
    # The flag of encryption stands between the version and the method.
    (zipped(9).replace(b"\x14\0\0\0\x08\0", b"\x14\0\1\0\x08\0"), "encrypted"),
]


def check_refused(path, message):
    """A path is refused within 2 seconds and 500 MB, with one line that names the file."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of the memory
    before, start = peak_memory(), time.perf_counter()
    with pytest.raises(ValueError, match=message) as caught:
        load_bilm(path)
    assert time.perf_counter() - start < 2
    assert peak_memory() - before < 500e6
    assert re.fullmatch(r".*(options\.json|weights\.hdf5|elmo\.archive).*", str(caught.value))


def peak_memory():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])


@pytest.mark.parametrize(("old", "new", "message"), OPTIONS.values(), ids=OPTIONS)
def test_options_are_compared_with_the_weights_first(tmp_path, weights, old, new, message):
    options = json.dumps(checkpoint.options())
    assert options.count(old) == 1
    checkpoint.write(tmp_path, {}, weights)
    (tmp_path / "options.json").write_text(options.replace(old, new))

    check_refused(tmp_path, message)


@pytest.mark.parametrize(("change", "message"), WEIGHTS, ids=range(5))
def test_weights_are_not_larger_than_their_file(tmp_path, weights, change, message):
    kept = {name: array for name, array in weights.items() if name != "char_embed"}
    checkpoint.write(tmp_path, checkpoint.options(), kept)
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        change(file)

    check_refused(tmp_path, message)


@pytest.mark.parametrize(("content", "message"), ARCHIVES, ids=range(11))
def test_archives_hold_only_files_of_their_size(tmp_path, content, message):
    (tmp_path / "elmo.archive").write_bytes(content)

    check_refused(tmp_path / "elmo.archive", message)
    assert {path.name for path in tmp_path.iterdir()} == {"elmo.archive"}
