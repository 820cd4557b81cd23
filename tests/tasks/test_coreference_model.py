import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.tasks.coreference.antecedents import antecedent_loss, antecedents_of
from elmo_tf.tasks.coreference.spans import candidates, kept_spans
from nested_arrays import assert_close
from reference import coreference as reference
from task_models import WORDS, new_model, padded, reference_weights, with_random_weights

LENGTHS = (6, 1, 0, 11, 3, 9, 2, 14)  # 36 of 46 spans are kept: several blocks of antecedents


def random_model(**kwargs):
    """A model with random weights that links some spans and scores some others above 0."""
    model = with_random_weights(new_model("coref", **kwargs), 0.8, seed=5)
    model.span_scores.network.score.bias.assign_add([4.5])
    model.antecedent_scores.network.score.bias.assign_sub([9.0])
    return model


@pytest.fixture(scope="module")
def model():
    """A model shared by all tests. Tests must not change it."""
    keras.utils.set_random_seed(0)
    return random_model()


@pytest.fixture(scope="module")
def mention_model(model):
    """A model with the same weights and a mention loss. Tests must not change it."""
    mention_model = new_model("coref", mention_loss=0.3)
    mention_model.set_weights(model.get_weights())
    return mention_model


def some_document(lengths=LENGTHS, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, length)) for length in lengths]


def some_speakers(sentences, seed=0):
    rng = np.random.default_rng(seed)
    return [list(rng.choice(["", "Ann", "서"], len(sentence.split()))) for sentence in sentences]


def some_gold(spans, seed=1):
    """A random entity for half of the spans."""
    rng = np.random.default_rng(seed)
    return {tuple(map(int, span)): int(rng.integers(4)) for span in spans if rng.random() < 0.5}


def as_targets(gold):
    return np.array([(*span, entity) for span, entity in gold.items()], np.int32).reshape(-1, 3)


def test_a_list_of_sentences_is_one_document(model):
    inputs = some_document((2,) * 33)
    np.testing.assert_allclose(model.predict(inputs, verbose=0)["spans"], model(inputs)["spans"])


Expected = collections.namedtuple("Expected", "mention_scores kept span_scores antecedent_scores")


def expected(model, sentences, speakers=None, genre=0):
    """The expected outputs for a document, by the reference formulas."""
    weights = reference_weights(model)
    vectors = model.token_vectors(padded(sentences))["input"].numpy().astype(np.float64)
    lengths = [len(sentence.split()) for sentence in sentences]
    x = [row[:length] for row, length in zip(vectors, lengths, strict=True)]
    x_star, x = reference.encoded(x, weights), np.concatenate(x)
    spans = reference.candidates(lengths, model.settings["max_width"])
    g = {span: reference.span_vector(span, x, x_star, weights) for span in spans}
    scores = {span: reference.mention_score(g[span], weights) for span in spans}
    kept = reference.kept_spans(scores, int(model.settings["span_ratio"] * len(x)))
    names = [name for row in speakers for name in row] if speakers else [""] * len(x)
    of_kept = [scores[span] for span in kept]
    found = reference.antecedent_scores(
        *(kept, [g[span] for span in kept], of_kept, names),
        genre if model.settings["genres"] else None,
        model.settings["max_antecedents"],
        weights,
    )
    return Expected(scores, kept, of_kept, found)


@pytest.fixture(scope="module")
def wanted(model):
    """The expected outputs of both models for `some_document()`."""
    return expected(model, some_document())


def antecedent_rows(outputs):
    """The antecedent scores of each span, without those of missing antecedents."""
    exists = np.pad(outputs["antecedents"].numpy() >= 0, ((0, 0), (1, 0)), constant_values=True)
    scores = outputs["antecedent_scores"].numpy()
    return [row[real] for row, real in zip(scores, exists, strict=True)]


@pytest.mark.parametrize(("genre", "number"), [("", 0), (None, 0), ("web", 2), ("blog", 0)])
def test_scores_match_the_reference_formulas(genre, number, model):
    sentences = some_document()
    speakers = some_speakers(sentences)
    wanted = expected(model, sentences, speakers, number)

    outputs = model({"tokens": sentences, "speakers": speakers, "genre": genre})

    grid, is_candidate = outputs["mention_scores"].numpy(), outputs["candidates"].numpy()
    assert np.count_nonzero(is_candidate) == len(wanted.mention_scores)
    for (first, last), score in wanted.mention_scores.items():
        assert is_candidate[first, last - first]
        np.testing.assert_allclose(grid[first, last - first], score, rtol=1e-5, atol=1e-5)
    assert outputs["spans"].numpy().tolist() == [list(span) for span in wanted.kept]
    np.testing.assert_allclose(outputs["span_scores"], wanted.span_scores, rtol=1e-5, atol=1e-5)
    found = antecedent_rows(outputs)
    assert len(found) == len(wanted.kept) == 36
    assert_close(found, wanted.antecedent_scores, rtol=1e-5, atol=1e-5)


def test_scores_without_genres_and_speakers_match_the_reference_formulas():
    model = random_model(genres=(), max_width=1, max_antecedents=1)
    sentences = some_document((4, 5))

    outputs = model(sentences)

    wanted = expected(model, sentences).antecedent_scores
    assert_close(antecedent_rows(outputs), wanted, rtol=1e-5, atol=1e-5)
    genre = model({"tokens": sentences, "genre": "news"})["antecedent_scores"]
    np.testing.assert_array_equal(genre, outputs["antecedent_scores"])


@pytest.mark.parametrize("which", ["model", "mention_model"])
def test_loss_matches_the_reference_formulas(which, wanted, request):
    model, sentences = request.getfixturevalue(which), some_document()
    too_wide = (8, 8 + model.settings["max_width"])
    gold = some_gold([*wanted.mention_scores, too_wide])
    y = np.pad(as_targets(gold), ((0, 2), (0, 0)), constant_values=-1)

    loss = model.per_example_loss(y, model(sentences), sentences)

    likelihood = reference.loss(wanted.antecedent_scores, wanted.kept, gold)
    of_mentions = reference.mention_loss(wanted.mention_scores, gold)
    total = likelihood + model.settings["mention_loss"] * of_mentions
    np.testing.assert_allclose(loss, [total], rtol=1e-5)


def test_loss_accepts_no_mentions_and_mentions_of_several_entities(model):
    outputs = model(some_document())
    scores = [row.astype(np.float64) for row in antecedent_rows(outputs)]
    kept = [tuple(span) for span in outputs["spans"].numpy().tolist()]

    def loss(mentions):
        return model.per_example_loss(np.array(mentions, np.int32).reshape(-1, 3), outputs)[0]

    np.testing.assert_allclose(loss([]), reference.loss(scores, kept, {}), rtol=1e-5)
    gold = {kept[3]: 5, kept[4]: 5}
    doubled = [(*kept[3], 2), (*kept[3], 5), (*kept[4], 5), (*kept[4], 1)]
    np.testing.assert_allclose(loss(doubled), reference.loss(scores, kept, gold), rtol=1e-5)


@pytest.mark.parametrize("which", ["model", "mention_model"])
def test_predicted_entities_match_the_reference_formulas(which, wanted, request):
    model, sentences = request.getfixturevalue(which), some_document()
    scores = wanted.span_scores if model.settings["mention_loss"] else None
    entities = reference.entities(wanted.antecedent_scores, wanted.kept, scores)

    assert model.entities(sentences) == entities
    assert sum(len(entity) > 1 for entity in entities) > 1
    assert any(len(entity) == 1 for entity in entities) == bool(model.settings["mention_loss"])
    assert sum(map(len, entities)) < len(wanted.kept)
    found = model.predictions(sentences)
    mentions = sorted((*span, n) for n, entity in enumerate(entities) for span in entity)
    names = ("mention_start", "mention_end", "entity")
    assert list(zip(*(found[name].numpy().tolist() for name in names), strict=True)) == mentions


@pytest.mark.parametrize(
    ("sentences", "y"), [([], []), (["", ""], []), ([[], []], []), (["cat"], [(0, 0, 3)])]
)
def test_a_document_without_spans_has_no_entities_and_a_loss(sentences, y, mention_model):
    y = np.array(y, np.int32).reshape(-1, 3)
    with tf.GradientTape() as tape:
        outputs = mention_model(sentences, training=True)
        loss = mention_model.per_example_loss(y, outputs)

    assert mention_model.entities(sentences) == []
    assert outputs["mention_scores"].shape == (len(y), 4)
    assert outputs["antecedent_scores"].shape == (0, 1)
    assert (loss.numpy().sum() > 0) == bool(len(y))
    for gradient in tape.gradient(loss, mention_model.trainable_variables):
        assert gradient is None or np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_every_weight_gets_a_finite_gradient(mention_model):
    with tf.GradientTape() as tape:
        outputs = mention_model({"tokens": some_document(), "genre": "web"}, training=True)
        y = as_targets(some_gold(outputs["spans"].numpy()))
        loss = mention_model.per_example_loss(y, outputs)
    gradients = tape.gradient(loss, mention_model.trainable_variables)

    for gradient, variable in zip(gradients, mention_model.trainable_variables, strict=True):
        assert not isinstance(gradient, tf.IndexedSlices) or "word" in variable.path
        gradient = tf.convert_to_tensor(gradient)
        assert np.isfinite(gradient).all(), variable.path
        assert np.any(gradient), variable.path


def test_invalid_targets_are_refused(model):
    outputs = model(some_document((3, 5)))
    for wrong in ([-1, 0, 0], [2, 1, 0], [5, 8, 0], [0, 0, -1], [-1, -1, 2]):
        with pytest.raises(ValueError, match=r"first token <= last token.*: 8, \[\["):
            model.per_example_loss(np.array([[0, 0, 1], wrong]), outputs)


# The steps that have no weights: pruning, and the loss of links.


@pytest.mark.parametrize("max_width", [1, 2, 5, 10])
def test_kept_spans_match_the_reference_loop(max_width):
    rng = np.random.default_rng(max_width)
    dtypes = {tf.float32: (None, max_width), tf.bool: (None, max_width), tf.int32: ()}
    signature = [tf.TensorSpec(shape, dtype) for dtype, shape in dtypes.items()]
    keep = tf.function(kept_spans, input_signature=signature, autograph=False)
    for _ in range(60):
        lengths = rng.integers(1, 25, size=rng.integers(1, 5)).tolist()
        num_tokens = sum(lengths)
        scores = rng.normal(size=(num_tokens, max_width)) * rng.choice([1, 5])
        scores += rng.choice([0, 2]) * np.arange(max_width)  # prefers long spans
        scores += rng.choice([0, 1]) * np.arange(num_tokens)[:, None]  # prefers late spans
        scores = (np.round(scores) if rng.random() < 0.5 else scores).astype(np.float32)  # ties
        sentences = np.repeat(np.arange(len(lengths)), lengths)
        is_candidate = candidates(tf.constant(sentences), max_width).numpy()
        spans = reference.candidates(lengths, max_width)
        assert is_candidate.sum() == len(spans)
        by_span = {(i, j): scores[i, j - i] for i, j in spans if is_candidate[i, j - i]}
        num_spans = int(rng.integers(0, 2 * num_tokens))

        found = keep(scores, is_candidate, num_spans).numpy().tolist()

        kept = reference.kept_spans(by_span, num_spans)
        assert [(each // max_width, each // max_width + each % max_width) for each in found] == kept


def test_loss_of_confident_correct_scores_is_zero_with_finite_gradients():
    scores = tf.Variable([[0.0, -1e9], [0.0, 50.0], [0.0, -50.0]])
    antecedents = antecedents_of(tf.range(3), 1)
    with tf.GradientTape() as tape:
        loss = antecedent_loss(scores, antecedents, tf.constant([4, 4, -1]))

    assert loss == 0
    assert np.isfinite(tape.gradient(loss, scores)).all()
