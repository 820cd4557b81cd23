import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from elmo_tf import Embedder
from elmo_tf.evaluation.plots.similarity_plot import (
    TokenSimilarities,
    draw_similarities,
    token_similarities,
)
from elmo_tf.evaluation.plots.style import save_figure

pytestmark = pytest.mark.usefixtures("eager_module")


@pytest.fixture
def random_similarities():
    """Random similarities, made without a model."""

    def make(tokens, beginnings=(), num_layers=3):
        rng = np.random.default_rng(0)
        vectors = rng.normal(size=(num_layers, len(tokens), 4))
        vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
        return TokenSimilarities(tokens, list(beginnings), vectors @ vectors.transpose(0, 2, 1))

    return make


def heat_maps(figure):
    return [axes for axes in figure.axes if axes.images]


def test_similarities_are_cosines_of_all_token_pairs(embedder, bilm):
    found = token_similarities(embedder, ["the cat sat", ["a", "cat"]])
    assert found.tokens == ["the", "cat", "sat", "a", "cat"]
    assert found.beginnings == [3]
    assert np.abs(found.cosines).max() <= 1
    first = bilm([["the", "cat", "sat"]])["layers"][0].numpy()
    second = bilm([["a", "cat"]])["layers"][0].numpy()
    for layer in range(3):
        for i, one in enumerate([*first[layer], *second[layer]]):
            for j, other in enumerate([*first[layer], *second[layer]]):
                cosine = one @ other / np.sqrt(one @ one * (other @ other))
                assert found.cosines[layer, i, j] == pytest.approx(cosine, abs=1e-5)


@pytest.mark.parametrize("sentences", [["a b", " "], ["a b", []]])
def test_an_empty_sentence_is_an_error(embedder, sentences):
    with pytest.raises(ValueError, match="Sentence 2 has no tokens"):
        token_similarities(embedder, sentences)


@pytest.mark.parametrize(("sentences", "number"), [([], 0), (["a " * 30, "b " * 31], 61)])
def test_too_few_or_too_many_tokens_are_an_error(embedder, sentences, number):
    with pytest.raises(ValueError, match=rf"1 to 60 tokens.*Received: {number}"):
        token_similarities(embedder, sentences)


def test_an_embedder_without_all_layers_is_refused(bilm):
    with pytest.raises(ValueError, match=r"must return all layers.*Received: 'average'"):
        token_similarities(Embedder(bilm, layers="average"), ["a"])


def test_each_layer_has_a_panel_with_its_numbers_and_labels(random_similarities):
    similarities = random_similarities(["a", "b", "c"])
    figure = draw_similarities(similarities)
    panels = heat_maps(figure)
    assert [axes.get_title() for axes in panels] == [
        "Layer 0 (without context)",
        "Layer 1",
        "Layer 2 (top)",
    ]
    for axes, cosines in zip(panels, similarities.cosines, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), cosines)
        assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
        assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert len({axes.images[0].get_clim() for axes in panels}) == 1
    assert figure.axes[-1].get_ylabel() == "cosine similarity"


def test_sentences_are_separated_by_lines(random_similarities):
    (axes,) = heat_maps(
        draw_similarities(random_similarities(["a", "b", "c", "d"], [1, 3], num_layers=1))
    )
    assert [line.get_xydata()[0, 1] for line in axes.lines[::2]] == [0.5, 2.5]
    assert [line.get_xydata()[0, 0] for line in axes.lines[1::2]] == [0.5, 2.5]


def test_unusual_tokens_are_shown_as_labels(random_similarities, tmp_path):
    tokens = ["x" * 300, "$5", "$x^2$", "\udcff", "\x00", "Äpfel", "은행", "م\u200cی"]
    figure = draw_similarities(random_similarities(tokens))
    save_figure(figure, tmp_path / "picture.png")
    save_figure(figure, tmp_path / "picture.svg")
    labels = [label.get_text() for label in heat_maps(figure)[0].get_xticklabels()]
    assert labels == [
        *("x" * 15 + "…", "$5", "$x^2$", r"\udcff", r"\x00", "Äpfel", "은행", "م\u200cی")
    ]


def labels_overlap(axes, renderer):
    boxes = [label.get_window_extent(renderer) for label in axes.get_yticklabels()]
    # The first label is at the top.
    return any(upper.y0 < lower.y1 - 1 for upper, lower in itertools.pairwise(boxes))


@pytest.mark.parametrize(("num_tokens", "num_layers"), [(1, 3), (60, 1), (9, 7)])
def test_labels_do_not_overlap_and_stay_within_the_picture(
    random_similarities, num_tokens, num_layers
):
    figure = draw_similarities(random_similarities(["tokens"] * num_tokens, num_layers=num_layers))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    assert len(heat_maps(figure)) == num_layers
    for axes in heat_maps(figure):
        assert not labels_overlap(axes, renderer)
        box = axes.get_tightbbox(renderer)
        assert figure.bbox.contains(box.x0, box.y0)
        assert figure.bbox.contains(box.x1, box.y1)
