"""Each picture: its file, its lines and its labels; and the readers of what is drawn."""

import json

import numpy as np
import pytest

from elmo_tf import Elmo
from elmo_tf.evaluation import plots
from elmo_tf.evaluation.plots import (
    Mix,
    checked_sentences,
    draw_mixes,
    draw_sample_efficiency,
    draw_similarities,
    draw_training,
    mixes_of,
    read_log,
    read_sweep,
    save_figure,
    token_similarities,
)
from elmo_tf.trainers import config, workdir

pytestmark = pytest.mark.usefixtures("eager_module")

LOG = [
    {"step": 1, "loss": 4.5, "forward": 5.0, "backward": 4.0, "seconds": 36.0},
    {"step": 2, "loss": 3.5, "forward": 4.0, "backward": 3.0, "seconds": 72.0},
    {"step": 3, "loss": 3.0, "forward": 3.5, "backward": 2.5, "seconds": 36.0},
]
RECORD = {
    "settings": {"batch_size": 3, "unroll": 6},
    "perplexity": [
        {"step": 0, "forward": 90.0, "backward": 80.0, "average": 85.0, "tokens": 7},
        {"step": 2, "forward": 50.0, "backward": 40.0, "average": 45.0, "tokens": 7},
    ],
}
MIXES = [
    Mix("ner, $in$", np.array([0.2, 0.7, 0.1]), 1.5),
    Mix("ner, output", np.array([0.05, 0.25, 0.7]), 0.75),
]
SWEEP = {
    "metric": "f1",
    "summary": [
        {
            "share": share,
            "with": {"mean": 0.5 + share / 4, "deviation": 0.01},
            "without": {"mean": 0.4 + share / 4, "deviation": None},
        }
        for share in (1.0, 0.1)
    ],
}


@pytest.fixture
def write_run(tmp_path):
    """Writes the log and the record of a work directory."""

    def write(lines=LOG, record=RECORD, name="run", end=""):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "log.jsonl").write_text(text + end)
        if record is not None:
            (folder / "training.json").write_text(json.dumps(record))
        return folder

    return write


SIMILARITIES = np.random.default_rng(0).uniform(-1, 1, (3, 3, 3))  # (layer, token, token)
PICTURES = {
    "training": lambda write_run: draw_training({"run": read_log(write_run())}),
    "similarity": lambda _: draw_similarities((["a"], ["$x^2$", "Größe"]), SIMILARITIES),
    "mixes": lambda _: draw_mixes(MIXES),
    "sample_efficiency": lambda _: draw_sample_efficiency(SWEEP),
}


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_each_picture_is_reproducible(tmp_path, write_run, draw, suffix):
    paths = [tmp_path / name / f"picture.{suffix}" for name in ("first", "second")]
    for path in paths:
        save_figure(draw(write_run), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_log_and_its_record_are_read(write_run):
    assert workdir.LOG_FILE == plots.LOG_FILE
    assert config.RECORD_FILE == plots.RECORD_FILE
    run = read_log(write_run())
    assert run.index.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(run["loss"], [np.nan, 4.5, 3.5, 3.0])
    np.testing.assert_array_equal(run["of forward"], [90, np.nan, 50, np.nan])
    np.testing.assert_array_equal(run["tokens"], [0, 18, 36, 54])
    # An incomplete last line is ignored.
    for end, last in (('{"step": 4, "lo', 3), ('{"step":4,"loss":NaN}\n', 4)):
        assert read_log(write_run(end=end)).index[-1] == last


def test_lines_show_the_values_of_the_run(write_run):
    losses, perplexities, speeds = draw_training({"run": read_log(write_run())}, "time").axes
    for axes, expected in (
        (losses, [[0.01, 4], [0.03, 3], [0.04, 2.5]]),  # backward
        (perplexities, [[0, 80], [0.03, 40]]),
        (speeds, [[0.01, 0.5], [0.03, 0.25], [0.04, 0.5]]),
    ):
        np.testing.assert_allclose(axes.lines[-1].get_xydata(), expected)


def test_numbers_of_runs_and_missing_quantities_are_errors(write_run):
    run = read_log(write_run())
    with pytest.raises(ValueError, match=r"1 to 7 runs\. Received: 8"):
        draw_training(dict.fromkeys("abcdefgh", run))
    bare = read_log(write_run([{"step": 1, "loss": 2.0}], None, "bare"))
    with pytest.raises(ValueError, match=r"bare: the log or training\.json lacks the tokens"):
        draw_training({"bare": bare}, "tokens")
    folder = write_run([{"loss": 1.0}], None)
    with pytest.raises(ValueError, match=r"log\.jsonl or training\.json is not of elmo-tf train"):
        read_log(folder)


def test_similarities_are_cosines_of_all_token_pairs(embedder, bilm):
    sentences = checked_sentences(["the cat sat", "a cat"])
    found = token_similarities(embedder, sentences)
    assert sentences == [["the", "cat", "sat"], ["a", "cat"]]
    layers = [bilm([tokens])["layers"][0].numpy() for tokens in sentences]
    for layer, vectors in enumerate(np.concatenate(layers, axis=1)):
        norms = np.linalg.norm(vectors, axis=1)
        expected = vectors @ vectors.T / np.outer(norms, norms)
        np.testing.assert_allclose(found[layer], expected, atol=1e-5)
    assert np.abs(found).max() <= 1
    for wrong, message in (
        (["a b", " "], "Sentence 2 has no tokens"),
        (["a " * 61], "Received: 61"),
    ):
        with pytest.raises(ValueError, match=message):
            checked_sentences(wrong)


def test_shares_are_the_softmax_of_the_weights_and_drawn_in_percent(bilm):
    elmo = Elmo(bilm, num_mixes=2)
    elmo.mixes[1].layer_weights.assign(np.log([1.0, 2.0, 6.0]))
    elmo.mixes[1].scaling.assign(3.0)

    first, second = mixes_of("ner", elmo)

    assert (first.name, second.name) == ("ner, input", "ner, output")
    np.testing.assert_allclose(first.shares, [1 / 3] * 3)
    np.testing.assert_allclose(second.shares, [1 / 9, 2 / 9, 6 / 9], rtol=1e-6)
    assert second.scale == 3
    axes = draw_mixes([first, second]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["33", "33", "33", "11", "22", "67"]
    with pytest.raises(ValueError, match="pos only uses the top layer: there is no mix"):
        mixes_of("pos", Elmo(bilm, top_only=True))


def test_scores_are_drawn_in_percent_by_share(tmp_path):
    axes = draw_sample_efficiency(SWEEP).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[10, 52.5], [100, 75]])
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(SWEEP))
    assert read_sweep(path) == SWEEP
    empty_row = json.dumps({**SWEEP, "summary": [{}]})
    for wrong in ("{", "[]", '{"summary": []}', json.dumps({**SWEEP, "metric": 3}), empty_row):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="is not a result of elmo-tf task sweep"):
            read_sweep(path)
