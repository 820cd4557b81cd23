"""ELMoForManyLangs checkpoints give the same vectors as a reference implementation."""

import copy
import json
import pickle
import shutil

import numpy as np
import pytest

from elmo_tf import Embedder, LSTMConfig, load_bilm, save_bilm
from elmo_tf.checkpoints import named_models
from elmo_tf.checkpoints.load import load_config
from elmo_tf.models.copies import model_digest
from elmo_tf.saved_models.exporting.export import export
from reference import manylangs as reference
from torch_files import legacy_file

SENTENCES = [
    ["the", "cat", "The", "THE"],
    ["abcdefghij", "abcdefghijk", "ab", "é" * 20, "o\u0308", "ö"],
    ["<bos>", "한국", "\u3000", "<oov>", "zzz", "<eos>", "\U0001f600"],
    ["the"],
]
CHARACTERS_ONLY = copy.deepcopy(reference.SHAPE)
CHARACTERS_ONLY["token_embedder"] |= {"word_dim": 0, "activation": "tanh", "n_highway": 1}
CHARACTERS_ONLY["encoder"] |= {"n_layers": 3, "proj_clip": None}
# The character features have the size of a token vector.
CHARACTERS_ONLY["token_embedder"]["filters"] = [[1, 2], [3, 4]]
SHAPES = {"words": reference.SHAPE, "characters": CHARACTERS_ONLY}


@pytest.fixture(scope="module", params=SHAPES)
def case(request, tmp_path_factory):
    """A checkpoint and the layers of each sentence, including boundaries."""
    shape = SHAPES[request.param]
    weights = reference.random_weights(shape)
    folder = tmp_path_factory.mktemp("manylangs")
    reference.write(folder, shape, weights, legacy_file)
    return folder, [reference.layers(tokens, shape, weights) for tokens in SENTENCES]


def test_vectors_of_strings_and_char_ids_match_the_reference(case, tmp_path):
    folder, expected = case
    bilm = load_bilm(folder)
    ids = bilm.char_ids(SENTENCES[0])

    for tokens, found, wanted in zip(SENTENCES, bilm(SENTENCES)["layers"], expected, strict=True):
        np.testing.assert_allclose(found[:, : len(tokens)], wanted[:, 1:-1], atol=1e-5)
    of_ids = bilm(ids[np.newaxis, :, :-1])["layers"]  # without a column of padding
    np.testing.assert_allclose(of_ids, bilm(SENTENCES[:1])["layers"], atol=1e-6)
    with_boundaries = load_bilm(folder, keep_boundaries=True)(SENTENCES[:1])["layers"]
    np.testing.assert_allclose(with_boundaries[0], expected[0], atol=1e-5)
    save_bilm(bilm, tmp_path)
    (tmp_path / "config.json").write_text("{}")  # of the Hub
    assert model_digest(load_bilm(tmp_path)) == model_digest(bilm)


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl"])
def test_a_pair_is_loaded(manylangs, name):
    bilm = load_bilm((manylangs / "config.json", manylangs / name))
    assert model_digest(bilm) == model_digest(load_bilm(manylangs))


@pytest.mark.more
def test_an_exported_model_contains_the_dictionary_files(case, tmp_path):
    bilm = load_bilm(case[0])

    export(bilm, tmp_path)  # compares the outputs of all signatures

    assets = {file.name for file in (tmp_path / "1" / "assets").iterdir()}
    assert "char.dic" in assets
    assert ("word.dic" in assets) == (bilm.lexicon.words is not None)


@pytest.mark.parametrize("case", ["words"], indirect=True)
def test_a_copied_embedder_keeps_the_lexicon(case):
    embedder = Embedder(load_bilm(case[0]))
    copy = pickle.loads(pickle.dumps(embedder))

    assert copy.settings() == embedder.settings()  # with a digest of the lexicon
    for found, expected in zip(copy.embed(SENTENCES), embedder.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert embedder.known_text[:2] == (10, "characters")


def test_a_missing_file_with_the_published_name_has_the_published_values(manylangs):
    (manylangs / "shape.json").unlink()
    config = {"config_path": "C:\\models\\cnn_50_100_512_4096_sample.json"}
    (manylangs / "config.json").write_text(json.dumps(config))

    assert load_config(manylangs).lstm == LSTMConfig()


def changed(part, **changes):
    return {**reference.SHAPE, part: {**reference.SHAPE[part], **changes}}


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (changed("token_embedder", char_dim=0), r"shape\.json: `embedding.dim`: Input should be"),
        (changed("encoder", dim="10"), r"shape\.json: `dim`: .* valid integer\. Received: '10'"),
        ({"encoder": {}}, "'token_embedder' is missing"),
        (changed("encoder", name="lstm"), "the encoder 'lstm' is not supported"),
    ],
)
def test_unsupported_shapes_raise_an_error(manylangs, shape, message):
    (manylangs / "shape.json").write_text(json.dumps(shape))

    with pytest.raises(ValueError, match=message):
        load_bilm(manylangs)


def test_two_processes_may_unpack_a_named_model_at_once(
    serve_named, tmp_path, manylangs, monkeypatch
):
    (served,) = serve_named("manylangs-de")
    shutil.make_archive(served.with_suffix(""), "zip", manylangs)
    unpack = named_models.unpack

    def unpack_concurrently(file, folder):
        unpack(file, folder)
        monkeypatch.setattr(named_models, "unpack", unpack)
        named_models.find_named_model("nlpl-142").fetch()

    monkeypatch.setattr(named_models, "unpack", unpack_concurrently)

    for _ in range(2):
        assert model_digest(load_bilm("manylangs-de")) == model_digest(load_bilm(manylangs))
        served.unlink(missing_ok=True)  # it is downloaded once
    folder = tmp_path / "home" / "elmo_tf"
    assert [path.name for path in folder.iterdir()] == ["manylangs-de"]
