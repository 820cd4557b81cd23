import numpy as np
import pytest

from elmo_tf.evaluation.plots.style import save_figure
from elmo_tf.evaluation.plots.training_log import TrainingRun
from elmo_tf.evaluation.plots.training_plot import MAX_RUNS, draw_training


def run(name="run", num_steps=5, **values):
    steps = np.arange(1, num_steps + 1)
    losses = {"forward": 9.0 - steps, "backward": 8.0 - steps}
    held_out = {"forward": np.array([90.0, 30.0]), "backward": np.array([80.0, 20.0])}
    return TrainingRun(name, steps, losses | values, np.array([0, num_steps]), held_out, 6)


def labels(figure):
    return [axes.get_ylabel().replace("\n", " ") for axes in figure.axes]


def ends(axes):
    """The first and the last point of each line."""
    return [line.get_xydata()[[0, -1]].tolist() for line in axes.lines]


def test_lines_show_the_values_of_the_run():
    losses, perplexities = draw_training([run()]).axes
    forward, backward = losses.lines
    np.testing.assert_array_equal(forward.get_xydata(), np.c_[1:6, [8, 7, 6, 5, 4]])
    np.testing.assert_array_equal(backward.get_xydata(), np.c_[1:6, [7, 6, 5, 4, 3]])
    assert ends(perplexities) == [[[0, 90], [5, 30]], [[0, 80], [5, 20]]]
    assert perplexities.get_yscale() == "log"


def test_axes_are_labeled_with_quantity_and_unit():
    seconds = {"seconds": np.full(5, 2.0)}
    figure = draw_training([run(learning_rate=np.full(5, 0.2), **seconds)])
    assert labels(figure) == [
        "loss (nats per token)",
        "perplexity per token (log scale)",
        "learning rate",
        "tokens per second",
    ]
    assert figure.axes[-1].get_xlabel() == "step"
    assert ends(figure.axes[2]) == [[[1, 0.2], [5, 0.2]]]
    assert ends(figure.axes[3]) == [[[1, 3], [5, 3]]]


def test_axis_limits_include_all_runs():
    """The limits do not depend on the order of the runs."""
    few, many = (
        run(name, learning_rate=np.full(5, rate), seconds=np.full(5, seconds))
        for name, rate, seconds in (("few", 0.001, 4.0), ("many", 0.2, 0.5))
    )
    for runs in ([few, many], [many, few]):
        _, _, rates, speeds = draw_training(runs).axes
        for axes, largest in ((rates, 0.2), (speeds, 12)):
            low, high = axes.get_ylim()
            assert low == 0
            assert largest < high < 2 * largest


def test_runs_are_distinguished_by_markers():
    names = ["a", "b", "c", "d", "e", "f", "g"]
    figure = draw_training([run(name) for name in names])
    lines = figure.axes[1].lines
    assert len({line.get_marker() for line in lines[::2]}) == len(names)
    assert {line.get_linestyle() for line in lines[::2]} == {"-"}
    assert {line.get_linestyle() for line in lines[1::2]} == {"--"}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*names, "forward", "backward"]


def test_names_are_not_interpreted_by_matplotlib(tmp_path):
    names = ["_hidden", "$x$", "$5", "x" * 60]
    figure = draw_training([run(name) for name in names])
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[:4] == [" _hidden", "$x$", "$5", "x" * 39 + "…"]
    save_figure(figure, tmp_path / "picture.svg")
    svg = (tmp_path / "picture.svg").read_text()
    assert ">$x$</text>" in svg
    assert ">$5</text>" in svg


def test_runs_may_log_different_values():
    forward = TrainingRun("forward", np.array([1]), {"forward": np.array([3.0])})
    bare = TrainingRun("bare", np.array([1]), {"loss": np.array([2.0])})
    figure = draw_training([forward, bare, run()])
    assert ends(figure.axes[0])[:2] == [[[1, 3]] * 2, [[1, 2]] * 2]
    assert len(figure.axes[1].lines) == 2


@pytest.mark.parametrize("perplexities", [[7.0, 7.0], [1e5, 3.0], [np.inf, 5.0]])
def test_the_perplexity_axis_has_ticks(tmp_path, perplexities):
    both = {"average": np.array(perplexities)}
    losses = {"loss": np.array([2.0])}
    figure = draw_training([TrainingRun("run", np.array([1]), losses, np.array([0, 1]), both)])
    save_figure(figure, tmp_path / "picture.png")
    axes = figure.axes[1]
    low, high = axes.get_ylim()
    assert any(low <= tick <= high for tick in axes.get_yticks())


def test_too_few_or_too_many_runs_are_an_error():
    with pytest.raises(ValueError, match=r"1 to 7 runs\. Received: 0"):
        draw_training([])
    with pytest.raises(ValueError, match=r"1 to 7 runs\. Received: 8"):
        draw_training([run()] * (MAX_RUNS + 1))
    with pytest.raises(ValueError, match="`window`"):
        draw_training([run()], window=0)
