import numpy as np
import pytest

from elmo_tf import Elmo
from elmo_tf.evaluation.plots.mix_plot import Mix, draw_mixes, mixes_of
from elmo_tf.evaluation.plots.style import save_figure

MIXES = [
    Mix("ner, $in$", np.array([0.2, 0.7, 0.1]), 1.5),
    Mix("ner, output", np.array([0.05, 0.25, 0.7]), 0.75),
]


def test_shares_are_the_softmax_of_the_weights(bilm):
    elmo = Elmo(bilm, num_mixes=2)
    elmo.build()
    elmo.mixes[1].layer_weights.assign(np.log([1.0, 2.0, 5.0]))
    elmo.mixes[1].scaling.assign(3.0)

    first, second = mixes_of("ner", elmo, ["input", "output"])

    assert (first.name, second.name) == ("ner, input", "ner, output")
    np.testing.assert_allclose(first.shares, [1 / 3] * 3)
    np.testing.assert_allclose(second.shares, [1 / 8, 2 / 8, 5 / 8], rtol=1e-6)
    assert second.scale == 3


def test_a_single_mix_has_the_name_of_its_model(bilm):
    elmo = Elmo(bilm)
    elmo.build()

    assert [mix.name for mix in mixes_of("pos", elmo, ["input"])] == ["pos"]
    with pytest.raises(ValueError, match="pos only uses the top layer: there is no mix"):
        mixes_of("pos", Elmo(bilm, top_only=True), ["input"])


def test_each_mix_is_a_row_with_its_shares_and_its_scale(tmp_path):
    figure = draw_mixes(MIXES)

    axes = figure.axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), [mix.shares for mix in MIXES])
    assert [text.get_text() for text in axes.texts] == ["20", "70", "10", "5", "25", "70"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ner, $in$", "ner, output"]
    assert [label.get_text() for label in axes.get_xticklabels()][-1] == "layer 2"
    (scales,) = axes.child_axes
    assert [label.get_text() for label in scales.get_yticklabels()] == ["1.50", "0.75"]
    save_figure(figure, tmp_path / "mix.svg")
    assert "ner, $in$" in (tmp_path / "mix.svg").read_text()


def test_no_mixes_and_different_numbers_of_layers_are_refused():
    with pytest.raises(ValueError, match=r"1 to 40 mixes. Received: 0"):
        draw_mixes([])
    with pytest.raises(ValueError, match="mixes of 2 and of 3 layers"):
        draw_mixes([*MIXES, Mix("other", np.array([0.5, 0.5]), 1.0)])
