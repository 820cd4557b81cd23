import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

from elmo_tf import Vocabulary, load_bilm
from reference import checkpoint

SENTENCES = ["the cat sat", "", "한국어"]


@pytest.fixture(scope="module")
def layers(bilm):
    return bilm(SENTENCES)["layers"].numpy()


@pytest.fixture
def copied(tmp_path, checkpoint_directory):
    """A copy of the checkpoint that a test may change."""
    return shutil.copytree(checkpoint_directory, tmp_path / "copied")


def zip_of(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def files_of(directory, prefix=""):
    return {f"{prefix}{file.name}": file.read_bytes() for file in directory.iterdir()}


def check(bilm, layers):
    np.testing.assert_array_equal(bilm(SENTENCES)["layers"], layers)


@pytest.mark.parametrize(
    "names",
    [
        ("elmo_2x1024_128_options.json", "elmo_2x1024_128_weights.hdf5"),
        ("options.json", "model.hdf5"),
        ("options.json", "lm_weights.hdf5"),
        ("options.json", "weights.h5"),
        ("options.json", "elmo_ru.hdf5"),  # no other file can be the weights
    ],
)
def test_files_are_found_by_their_names(copied, layers, names):
    (copied / "options.json").rename(copied / names[0])
    (copied / "weights.hdf5").rename(copied / names[1])
    for name in ("vocab.txt", "token_embeddings.hdf5", "softmax.hdf5", "softmax.safetensors"):
        (copied / name).touch()

    check(load_bilm(copied), layers)


@pytest.mark.parametrize("prefix", ["", "a/b/", "run/"])
def test_a_zip_of_the_files_or_of_their_folder_is_loaded(
    tmp_path, checkpoint_directory, layers, prefix
):
    files = files_of(checkpoint_directory, prefix)
    if prefix == "a/b/":  # what macOS adds
        for name in ("options.json", "weights.hdf5"):
            files |= {f"__MACOSX/a/b/._{name}": b"", f"a/b/._{name}": b""}
    elif prefix == "run/":  # a work directory of training, with a second checkpoint in `best`
        files |= {name.replace("run/", "run/best/"): b"" for name in files}

    check(load_bilm(zip_of(tmp_path / "elmo.zip", files)), layers)


def test_a_directory_may_hold_one_checkpoint_in_a_subfolder(tmp_path, copied, layers):
    shutil.move(copied, tmp_path / "unpacked" / "uniref50")
    (tmp_path / "unpacked" / "README").touch()
    shutil.copytree(tmp_path / "unpacked" / "uniref50", tmp_path / "unpacked" / ".new.part")

    check(load_bilm(tmp_path / "unpacked"), layers)
    shutil.copytree(tmp_path / "unpacked" / "uniref50", tmp_path / "unpacked" / "one")
    message = r"unpacked holds several checkpoints: one, uniref50\. Pass the"
    with pytest.raises(ValueError, match=message):
        load_bilm(tmp_path / "unpacked")


def test_an_archive_from_a_url_is_downloaded_once(
    website, checkpoint_directory, layers, capsys, caplog
):
    folder, address = website
    with tarfile.open(folder / "download", "w:gz") as archive:  # its name does not matter
        archive.add(checkpoint_directory, "elmo")

    caplog.set_level("INFO", logger="absl")
    check(load_bilm(f"{address}/download"), layers)
    assert capsys.readouterr().out == ""
    assert f"Downloading {address}/download." in caplog.text
    (folder / "download").unlink()
    check(load_bilm(f"{address}/download"), layers)  # from the cache


def test_urls_with_the_same_file_name_are_cached_separately(website, checkpoint_directory):
    folder, address = website
    other = checkpoint.options(n_highway=0, dim=9)
    checkpoint.write(folder / "other", other, checkpoint.random_weights(other))
    shutil.copytree(checkpoint_directory, folder / "one")

    for name in ("one", "other"):
        zip_of(folder / "elmo.zip", files_of(folder / name))
        pair = (f"{address}/{name}/options.json", f"{address}/{name}/weights.hdf5")
        for url in (pair, f"{address}/elmo.zip?id={name}/a"):
            assert load_bilm(url).config == load_bilm(folder / name).config


@pytest.mark.parametrize("name", ["model.hdf5", "old_weights.hdf5", "old_options.json"])
def test_two_options_or_weight_files_are_refused_without_a_pair(copied, layers, name):
    (copied / name).touch()

    with pytest.raises(ValueError, match=rf"must contain one .*, not 2: .*{name}.*Pass the pair"):
        load_bilm(copied)
    check(load_bilm((copied / "options.json", str(copied / "weights.hdf5"))), layers)


def test_single_files_are_refused(checkpoint_directory):
    with pytest.raises(ValueError, match=r"weights.hdf5 is not a checkpoint: pass a directory"):
        load_bilm(checkpoint_directory / "weights.hdf5")
    with pytest.raises(ValueError, match=r"A pair \(options, weights\) is required. Received"):
        load_bilm(("one",))


def test_token_embeddings_must_have_a_row_for_each_token(tmp_path, checkpoint_directory):
    words, table = tmp_path / "vocab.txt", tmp_path / "table.hdf5"
    Vocabulary.build(["a b"]).save(words)
    checkpoint.write_hdf5(table, {"embedding": np.zeros((7, 6), np.float32)})

    with pytest.raises(ValueError, match=r"vocab\.txt has 5 tokens, but .*`.* has 7 rows"):
        load_bilm(checkpoint_directory, token_embeddings=table, vocabulary=words)
    with pytest.raises(ValueError, match=r"`vocabulary` requires `token_embeddings`"):
        load_bilm(checkpoint_directory, vocabulary=words)


@pytest.mark.parametrize("format", ["hdf5", "safetensors"])
def test_the_token_table_may_be_in_the_weight_file(tmp_path, options, weights, format):
    """As bilm-tf writes it."""
    folder = tmp_path / "words"
    lstms = {name: array for name, array in weights.items() if name.startswith("RNN")}
    table = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    changed = {"lstm": options["lstm"], "n_tokens_vocab": 5}
    checkpoint.write(folder, changed, {**lstms, "embedding": table})
    if format == "safetensors":
        (folder / "weights.hdf5").unlink()
        save_file({**lstms, "embedding": table}, folder / "weights.safetensors")
    bilm = load_bilm(folder)
    np.testing.assert_array_equal(bilm(np.array([[4, 5]]))["layers"][0, 0, :, :6], table[3:])
    with pytest.raises(ValueError, match=r"to read strings: add vocab.txt to the checkpoint"):
        bilm(["a b"])
    Vocabulary.build(["a a b"]).save(folder / "vocab.txt")

    bilm = load_bilm(folder)

    np.testing.assert_array_equal(bilm.token_embeddings(["b", "?"]), table[[4, 2]])
    np.testing.assert_array_equal(bilm(["a b"])["layers"][0, 0, :, :6], table[3:])
    # A file of token embeddings takes precedence.
    checkpoint.write_hdf5(folder / "token_embeddings.hdf5", {"embedding": table + 1})
    np.testing.assert_array_equal(load_bilm(folder).token_embeddings(["b"]), table[[4]] + 1)
