import concurrent.futures
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest

from elmo_tf import BiLM, Elmo, Embedder
from elmo_tf.embedding import embedder as module
from nested_arrays import assert_close
from reference import scalar_mix as reference

NUM_LAYERS, WIDTH = 3, 12


def mixed_lengths(seed=0, count=60):
    """Sentences of 0 to 29 tokens, as lists and as strings."""
    rng = np.random.default_rng(seed)
    words = ["a", "the", "cat", "서울", "\N{GRINNING FACE}", "x" * 20, "sat"]
    lists = [list(rng.choice(words, n)) for n in rng.integers(0, 30, count)]
    return [" ".join(tokens) if i % 2 else tokens for i, tokens in enumerate(lists)]


@pytest.mark.parametrize("batch_tokens", [1, 64, 1000])
def test_vectors_match_the_bilm_on_single_sentences_in_input_order(bilm, batch_tokens):
    sentences = mixed_lengths(count=30)

    arrays = Embedder(bilm, batch_tokens=batch_tokens).embed(sentences)

    for sentence, array in zip(sentences, arrays, strict=True):
        tokens = sentence.split() if isinstance(sentence, str) else sentence
        assert array.shape == (NUM_LAYERS, len(tokens), WIDTH)
        assert array.dtype == np.float32
        if tokens:
            np.testing.assert_allclose(array, bilm([tokens])["layers"][0], atol=1e-5)


def test_an_endless_iterator_is_read_lazily(embedder):
    taken = itertools.count()
    endless = (f"sentence {next(taken)}" for _ in itertools.repeat(None))

    arrays = list(itertools.islice(embedder.embed(endless), 7))

    assert [array.shape for array in arrays] == [(NUM_LAYERS, 2, WIDTH)] * 7
    assert next(taken) < 1000


@pytest.mark.usefixtures("eager_functions")
@pytest.mark.parametrize(
    ("choice", "combined"),
    [
        (0, lambda layers: layers[0]),
        (2, lambda layers: layers[2]),
        ("top", lambda layers: layers[-1]),
        ("average", lambda layers: layers.mean(axis=0)),
        ("mix", lambda layers: layers.mean(axis=0)),
        ("sum", lambda layers: layers.sum(axis=0)),
        ("concat", lambda layers: np.concatenate(layers, axis=-1)),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_layers_are_selected_or_combined(embedder_of, embedder, monkeypatch, choice, combined):
    # The last sentence is read in windows.
    monkeypatch.setattr("elmo_tf.text.batches._MOST_WINDOW", 8)
    sentences = ["the cat sat", [], "a " * 9]
    chosen = embedder_of(choice)

    for got, layers in zip(chosen.embed(sentences), embedder.embed(sentences), strict=True):
        atol = 1e-6 if choice in ("top", "average", "mix") else 1e-5
        np.testing.assert_allclose(got, combined(layers), atol=atol)

    assert chosen.dim == WIDTH * (NUM_LAYERS if choice == "concat" else 1)
    assert chosen.encode(sentences).shape == (3, chosen.dim)
    assert chosen.encode([]).shape == (0, chosen.dim)


def test_without_layers_encode_averages_and_embed_returns_all_layers(bilm, embedder, embedder_of):
    sentences = ["the cat sat", [], ["a"]]
    average = embedder_of("average")

    assert next(embedder.embed(sentences)).shape == (NUM_LAYERS, 3, WIDTH)
    for output in ("sentence", "token"):
        expected = average.encode(sentences, output)
        assert_close(embedder.encode(sentences, output), expected, atol=1e-6)
    assert pickle.loads(pickle.dumps(embedder)).encode("the cat").shape == (WIDTH,)
    assert embedder.encode([]).shape == (0, WIDTH)


@pytest.mark.parametrize("layers", ["all", None])
def test_similarity_is_the_cosine_of_each_pair(embedder_of, layers):
    embedder = embedder_of(layers)
    a, b = ["the cat sat", "", ["a"]], ["the cat", "a"]
    rows = [embedder.encode(sentences).reshape(len(sentences), -1) for sentences in (a, b)]
    norms = [np.linalg.norm(vectors, axis=1) for vectors in rows]

    found = embedder.similarity(a, b)

    np.testing.assert_allclose(found * np.outer(*norms), rows[0] @ rows[1].T, atol=1e-5)
    assert not found[1].any()
    np.testing.assert_allclose(embedder.similarity(embedder.encode(a), b), found, atol=1e-6)
    np.testing.assert_allclose(embedder.similarity(embedder.encode(a[0]), b), found[:1], atol=1e-6)
    np.testing.assert_allclose(embedder.similarity("a", embedder.encode(["a"])), [[1]], atol=1e-6)
    assert embedder.similarity([], b).shape == (0, 2)


def test_truncated_and_unknown_tokens_are_reported_once(bilm, word_bilm, caplog):
    embedder = Embedder(bilm)
    embedder.encode(["a b", "a", "한국어", "café"])
    assert not caplog.records
    embedder.encode(["a " + "x" * 13, "서울서울 " + "x" * 12])
    for again in (embedder, Embedder(bilm)):
        again.encode(["y" * 20])
    Embedder(word_bilm).encode(["a b", "unbekannt b"])

    truncated, unknown = (record.getMessage() for record in caplog.records)
    assert "1 with a token longer than the model reads" in truncated
    assert "'xxxxxxxxxxxxx'" in truncated
    assert "1 with a token that is not in the vocabulary" in unknown
    assert "'unbekannt'" in unknown


def test_mix_uses_the_current_weights_of_the_elmo(bilm, elmo, embedder):
    mixing = Embedder(elmo, layers="mix")
    layers = next(iter(embedder.embed(["the cat sat"])))

    before = mixing.encode("the cat sat", output="token")
    expected = reference.scalar_mix(layers[np.newaxis], [0.4, -1.1, 0.9], 1.7)[0]
    np.testing.assert_allclose(before, expected, atol=1e-5)

    elmo.mixes[0].scaling.assign(3.4)
    np.testing.assert_allclose(mixing.encode("the cat sat", output="token"), 2 * before, atol=1e-5)
    elmo.mixes[0].scaling.assign(1.7)


def test_sentence_vectors_are_means_over_tokens_and_may_be_normalized(embedder_of):
    embedder, sentences = embedder_of("all"), ["the cat sat", [], ["a"]]
    assert embedder.encode([]).shape == (0, NUM_LAYERS, WIDTH)
    assert embedder.encode([], output="token") == list(embedder.embed([])) == []
    arrays = embedder.encode(sentences, output="token")
    assert_close(embedder.encode("the cat sat", output="token"), arrays[0], atol=1e-6)

    vectors = embedder.encode(sentences)

    assert (vectors.shape, vectors.dtype) == ((3, NUM_LAYERS, WIDTH), np.float32)
    means = [array.sum(axis=1) / max(1, array.shape[1]) for array in arrays]
    assert_close(list(vectors), means, atol=1e-6)
    assert_close(embedder.encode("the cat sat"), means[0], atol=1e-6)
    for output, found in (("sentence", vectors), ("token", arrays)):
        normalized = embedder.encode(sentences, output, normalize=True)
        for array, plain in zip(normalized, found, strict=True):
            norms = np.linalg.norm(plain, axis=-1, keepdims=True)
            np.testing.assert_allclose(array * norms, plain, atol=1e-6)
            np.testing.assert_allclose(np.linalg.norm(array, axis=-1), norms[..., 0] > 0, atol=1e-6)


def test_progress_is_shown_on_request(embedder, capsys):
    for choice, shown in ((True, "embedding: 2/2, "), (None, "")):
        embedder.encode(["a", "b"], show_progress_bar=choice)
        assert capsys.readouterr().err[:16] == shown


def test_invalid_sentences_are_refused_with_their_number(embedder):
    for call in (embedder.encode, embedder.embed, embedder.embed_texts):
        with pytest.raises(TypeError, match=r"a str or a list of tokens.*Sentence 1 is None"):
            call(["a", None])  # before anything is computed
    with pytest.raises(TypeError, match=r"a str or a list of tokens.*entence 1 is "):
        list(embedder.embed(iter(["a", ["a", 7]])))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": 3}, r"a number from 0 to 2. Received: 3"),
        ({"layers": -1}, r"a number from 0. Received: -1"),
        ({"layers": 1.5}, r"a number from 0. Received: 1.5"),
        ({"layers": "bottom"}, r"`layers` must be one of all, concat, .*mix, .*: 'bottom'"),
        ({"precision": "float8"}, r"`precision` must be one of float32.*Received: 'float8'"),
        ({"batch_tokens": 0}, r"`batch_tokens` must be at least 1. Received: 0"),
    ],
)
def test_arguments_out_of_range_are_refused(bilm, embedder, arguments, message):
    with pytest.raises(ValueError, match=message):
        Embedder(bilm, **arguments)
    with pytest.raises(ValueError, match=r"`output` must be one of sentence, token. Rec.*: 'no'"):
        embedder.encode(["a"], output="no")


def test_models_without_unique_vectors_are_refused(bilm):
    for model, message in (
        (BiLM(bilm.config, stateful=True), r"needs a biLM with stateful=False"),
        (BiLM(bilm.config, keep_boundaries=True), r"needs a biLM with keep_boundaries=False"),
        (Elmo(bilm, top_only=True), r'has no mix \(top_only=True\): use layers="top"'),
        (Elmo(bilm, num_mixes=2), r"The Elmo must have one mix.*num_mixes=2"),
    ):
        with pytest.raises(ValueError, match=message):
            Embedder(model, layers="mix")


def test_several_threads_may_use_one_embedder(bilm, embedder_of):
    embedder = Embedder(bilm, batch_tokens=16)
    texts = [mixed_lengths(seed, count=12) for seed in range(4)]
    expected = [list(embedder_of("all").embed(text)) for text in texts]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: list(embedder.embed(text)), texts * 3))

    assert_close(found, expected * 3, atol=1e-5)


def test_many_embedders_cause_no_warnings_of_retracing(bilm, caplog):
    for number in range(6):
        embedder = Embedder(bilm, batch_tokens=16)
        sentences = ["the cat", "a longer sentence than that", "서울", "", "a " * 600]
        for sentence in sentences[: 3 if number else 5]:
            embedder.encode(sentence)

    assert not [record for record in caplog.records if "retracing" in record.getMessage()]


@pytest.mark.usefixtures("eager_functions")
@pytest.mark.parametrize("layers", ["all", "mix"])
def test_bfloat16_vectors_are_near_float32_and_leave_the_bilm_unchanged(elmo, monkeypatch, layers):
    monkeypatch.setattr(module, "usable_precision", lambda precision: precision)
    sentences = mixed_lengths(seed=3, count=6)
    exact = Embedder(elmo, layers)
    rough = Embedder(elmo, layers, precision="bfloat16", batch_tokens=16)

    found = list(rough.embed(sentences))
    assert {array.dtype.name for array in found} == {"float32"}
    assert_close(found, list(exact.embed(sentences)), atol=0.03)
    assert elmo.bilm.compute_dtype == "float32"
    assert rough.bilm.compute_dtype == "bfloat16"
    if layers == "all":  # a biLM in bfloat16 is copied too
        found = Embedder(rough.bilm, "all").encode("the cat", "token")
        np.testing.assert_allclose(found, exact.encode("the cat", "token"), atol=1e-5)

    copy = pickle.loads(pickle.dumps(rough))
    assert copy.settings() == rough.settings()
    np.testing.assert_array_equal(copy.encode(["the cat"]), rough.encode(["the cat"]))
    # On processors without bfloat16 instructions, a copy computes in float32.
    monkeypatch.setattr(module, "usable_precision", lambda precision: "float32")
    copy = pickle.loads(pickle.dumps(rough))
    assert copy.precision == copy.bilm.compute_dtype == "float32"


@pytest.mark.usefixtures("eager_functions")
def test_a_copy_gives_the_same_vectors_and_does_not_share_weights(fresh_bilm, word_bilm):
    elmo = Elmo(fresh_bilm())
    elmo.mixes[0].layer_weights.assign([0.4, -1.1, 0.9])
    embedder = Embedder(elmo, "mix", batch_tokens=64)
    expected = embedder.encode(["the cat sat", "a"])

    copy = pickle.loads(pickle.dumps(embedder))

    assert copy.settings() == embedder.settings()
    elmo.mixes[0].scaling.assign(3.0)
    for weight in elmo.bilm.weights:
        weight.assign(0 * weight)
    np.testing.assert_array_equal(copy.encode(["the cat sat", "a"]), expected)
    copy = pickle.loads(pickle.dumps(Embedder(word_bilm)))
    expected = word_bilm(["b never a"])["layers"][0]
    np.testing.assert_allclose(next(copy.embed(["b never a"])), expected, atol=1e-5)


FORK = """
import multiprocessing
from elmo_tf import BiLM, BiLMConfig, Embedder

embedder = Embedder(BiLM(BiLMConfig.preset("tiny")))

def new(text):
    Embedder(embedder.bilm)

def inherited(text):
    embedder.encode(text)

with multiprocessing.get_context("fork").Pool(1) as pool:
    for call in new, inherited, embedder.encode:  # the last is a copy
        try:
            pool.map_async(call, ["a"]).get(30)
        except RuntimeError as error:
            print(error)
"""


@pytest.mark.more
def test_after_a_fork_every_computation_raises_an_error_instead_of_hanging():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120)

    message = "This process was forked from one that had loaded a model"
    assert [line.startswith(message) for line in done.stdout.splitlines()] == [True] * 3
