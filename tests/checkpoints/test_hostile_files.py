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
NUMBERS = {  # one number of options.json
    "n_layers": ('"n_layers": 2', 2_000, "lacks `RNN_0/.*/Cell2/LSTMCell/W_0`"),
    "endless layers": ('"n_layers": 2', LARGE, "lacks `RNN_0/.*/Cell2/LSTMCell/W_0`"),
    "n_highway": ('"n_highway": 2', 10**6, "lacks `CNN_high_2/W_carry`"),
    "dim": ('"dim": 10', LARGE, r"`RNN_0/.*/W_0`.*weights\.hdf5 has \(12, 40\), .* \(12, 40{30}\)"),
    "embedding": ('"dim": 5', LARGE, "`char_embed`.* the model expects"),
    "filters": ("[1, 2]", f"[1, {LARGE}]", "`CNN/W_cnn_0`.* the model expects"),
    "a wide filter": ("[1, 2]", f"[{LARGE}, 1]", r"max_characters_per_token` must be at least"),
    "characters": (
        '"max_characters_per_token": 14',
        LARGE,
        "less than or equal to 10000. Received",
    ),
    "digits": ('"dim": 10', "1" * 5_000, "Invalid JSON: number out of range"),
    "brackets": ('"dim": 10', "[" * 100_000, "Invalid JSON: recursion limit exceeded"),
    "infinity": (
        '"cell_clip": 0.6',
        "1e999",
        r"`lstm\.cell_clip`: Input should be a finite number",
    ),
    "words": ('"char_cnn"', f'"n_tokens_vocab": {LARGE}, "none"', "lacks `embedding`"),
}


def pebibytes(file):
    file.create_dataset("char_embed", (261, 2**43), "f4", chunks=(1, 1_000))


def decompressed(file):
    zeros = np.zeros((261, 2 * 10**5), np.int8)
    file.create_dataset("char_embed", data=zeros, dtype="f4", compression="gzip")


def linked(file):
    for i in range(2, 1_000):
        file[f"RNN_0/RNN/MultiRNNCell/Cell{i}"] = file["RNN_0/RNN/MultiRNNCell/Cell0"]


def nested(file):
    file.create_group("CNN" + "/a" * 1_000)


def empty(file):
    file["char_embed"] = h5py.Empty("f4")


WEIGHTS = {
    pebibytes: r"weights\.hdf5 up to `char_embed` are 9,183,\S+ bytes long, but the file only",
    decompressed: r"weights\.hdf5 up to `char_embed` are 208,\S+ bytes long, but the file only",
    linked: r"The links in .*weights\.hdf5 at `RNN_0/\S+` do not end",
    nested: r"The links in .*weights\.hdf5 at `CNN/\S+` do not end",
    empty: r"Cannot load `char_embed` .*weights\.hdf5 has \(\), the model expects",
}


def tar_with(kind=tarfile.REGTYPE, name="elmo/more", size=0):
    def write(path, files):
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, size, "elmo/options.json"
            archive.addfile(member, io.BytesIO(bytes(size)))
            for name_of_file, content in files.items():
                file = tarfile.TarInfo(f"elmo/{name_of_file}")
                file.size = len(content)
                archive.addfile(file, io.BytesIO(content))

    return write


def zip_with(name="more", size=0):
    def write(path, files):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name_of_file, content in {name: bytes(size), **files}.items():
                archive.writestr(name_of_file, content)

    return write


def damaged(write, change):
    def write_damaged(path, files):
        write(path, files)
        content = bytearray(path.read_bytes())
        path.write_bytes(change(content) or content)

    return write_damaged


def encrypt(content):
    """Sets the flag of encryption in the headers of the first file."""
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1


NO_FILE = "elmo/more is neither a file nor a folder"
EXPANDED = "its files are more than 100 times as large as it"
ARCHIVES = {
    "symbolic link": (tar_with(tarfile.SYMTYPE), NO_FILE),
    "hard link": (tar_with(tarfile.LNKTYPE), NO_FILE),
    "pipe": (tar_with(tarfile.FIFOTYPE), NO_FILE),
    "character device": (tar_with(tarfile.CHRTYPE), NO_FILE),
    "block device": (tar_with(tarfile.BLKTYPE), NO_FILE),
    "path outside": (tar_with(name="../../more"), r"\.\./\.\./more"),
    "expanded tar": (tar_with(size=5 * 10**7), EXPANDED),
    "expanded zip": (zip_with(size=5 * 10**7), EXPANDED),
    "truncated tar": (damaged(tar_with(), lambda content: content[:-200]), ""),
    "truncated zip": (damaged(zip_with(), lambda content: content[:-200]), "not a zip file"),
    "encrypted zip": (damaged(zip_with(), encrypt), "encrypted"),
}


def check_refused(path, message):
    """A path is refused within 2 seconds and 500 MB, with one line."""
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


@pytest.mark.parametrize("name", NUMBERS)
def test_options_are_compared_with_the_weights_first(tmp_path, weights, name):
    old, new, message = NUMBERS[name]
    options = json.dumps(checkpoint.options())
    assert options.count(old) == 1
    key = old.rpartition(": ")[0]
    checkpoint.write(tmp_path, {}, weights)
    (tmp_path / "options.json").write_text(options.replace(old, f"{key}: {new}" if key else new))

    check_refused(tmp_path, message)


@pytest.mark.parametrize("change", WEIGHTS)
def test_weights_are_not_larger_than_their_file(tmp_path, weights, change):
    kept = {name: array for name, array in weights.items() if name != "char_embed"}
    checkpoint.write(tmp_path, checkpoint.options(), kept)
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        change(file)

    check_refused(tmp_path, WEIGHTS[change])


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_hold_only_files_of_their_size(tmp_path, checkpoint_directory, name):
    write, message = ARCHIVES[name]
    files = {file.name: file.read_bytes() for file in checkpoint_directory.iterdir()}
    write(tmp_path / "elmo.archive", files)

    check_refused(tmp_path / "elmo.archive", rf"Cannot unpack .*elmo\.archive: .*{message}")
    assert {path.name for path in tmp_path.iterdir()} == {"elmo.archive"}
