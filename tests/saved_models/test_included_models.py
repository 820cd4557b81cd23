"""The English and the Korean model that come with the package."""

import json

import h5py
import numpy as np
import pytest

from elmo_tf import Embedder, load_bilm, load_language_model
from elmo_tf.checkpoints.named_models import find_named_model
from elmo_tf.evaluation import sentence_scores, substitutes
from reference import bilm as reference
from reference import checkpoint

pytestmark = pytest.mark.usefixtures("eager_module")

MONEY = (
    "The bank lent them the money for a new house .",
    "He asked the bank for a loan , but it refused .",
    "She owed the bank a large sum of money .",
)
RIVER = (
    "They walked along the bank of the river until dark .",
    "Trees grew on the north bank of the stream .",
    "The boat was tied up at the bank of the canal .",
)
NAMES = ("small-en", "small-ko")


@pytest.fixture(scope="module")
def bilms():
    return {name: load_bilm(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_small_and_the_weights_float32_in_memory(name, bilms):
    folder = find_named_model(name).folder
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 29_500_000
    with h5py.File(folder / "weights.hdf5") as file:
        found = set()
        file.visititems(lambda _, item: found.add(getattr(item, "dtype", None)))
    assert found - {None} == {np.dtype(np.float16)}
    assert {weight.dtype for weight in bilms[name].weights} == {"float32"}


@pytest.mark.parametrize("name", NAMES)
def test_the_layers_equal_the_reference(name, bilms):
    folder = find_named_model(name).folder
    options = json.loads((folder / "options.json").read_text())
    weights = {
        name: array.astype(np.float64)
        for name, array in checkpoint.read_hdf5(folder / "weights.hdf5").items()
    }
    for sentence in (MONEY[0], "Zürich 서울 !"):
        wanted, _ = reference.layers(sentence.split(), options, weights)
        found = bilms[name]([sentence])["layers"][0]
        np.testing.assert_allclose(found, wanted[:, 1:-1], atol=2e-5)


@pytest.mark.parametrize("layer", [1, 2])
def test_contextual_layers_distinguish_the_senses_of_bank(bilms, layer):
    text = [sentence.split() for sentence in (*MONEY, *RIVER)]
    arrays = zip(text, Embedder(bilms["small-en"]).embed(text), strict=True)
    vectors = np.stack([array[layer, tokens.index("bank")] for tokens, array in arrays])
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = units @ units.T - 2 * np.eye(len(text))
    for occurrence, near in enumerate(cosines.argmax(axis=1)):
        assert (near < len(MONEY)) == (occurrence < len(MONEY))


def test_the_softmax_predicts_words():
    model = load_language_model("small-en")
    sentence = ["He", "drank", "a", "cup", "of", "tea", "."]
    ((found,),) = substitutes(model, [sentence], [[5]])
    assert {"tea", "coffee"} <= {substitute.token for substitute in found}
    natural, unnatural = sentence_scores(model, [sentence, sentence[::-1]])
    for direction, scores in natural.token_log_probs.items():
        assert scores.sum() > unnatural.token_log_probs[direction].sum() + 10


def test_the_layers_of_small_ko_distinguish_a_ship_from_a_pear():
    embedder = Embedder("small-ko", layers=2, tokenizer="ko-morph")
    pears = ("사과와 배를 샀다.", "포도와 배를 먹었다.", "배와 감 같은 과일을 팔았다.")
    ships = ("배를 타고 섬에 갔다.", "배를 타고 바다로 나갔다.", "항구에서 배가 떠났다.")
    texts = embedder.embed_texts([*pears, *ships])
    vectors = np.stack([text.vectors[text.tokens.index("배")] for text in texts])
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = units @ units.T
    same = cosines[:3, :3].sum() + cosines[3:, 3:].sum() - 6
    assert same / 12 > cosines[:3, 3:].mean()
