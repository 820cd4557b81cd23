import numpy as np
import pytest
from PIL import Image

from elmo_tf.evaluation.plots import save_figure
from elmo_tf.evaluation.plots.style import families, new_figure

# For private use: no font that can be relied on has it.
NOWHERE = "\U0010fffd"


@pytest.fixture
def figure():
    figure = new_figure(2, 1)
    figure.subplots().set_title("a title")
    return figure


def test_a_picture_has_the_size_and_is_not_empty(figure, tmp_path):
    path = tmp_path / "new" / "picture.PNG"
    save_figure(figure, path, dpi=50)
    picture = np.asarray(Image.open(path).convert("L"))
    assert picture.shape == (50, 100)
    assert picture.std() > 10


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix):
    for name in ("a", "b"):
        figure = new_figure(2, 1)
        figure.subplots().plot([1, 2])
        save_figure(figure, tmp_path / (name + suffix))
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_other_formats_are_refused(figure, tmp_path):
    with pytest.raises(ValueError, match=r"must end in one of \.png, \.svg, \.pdf\. Received: .*b"):
        save_figure(figure, tmp_path / "picture.bmp")
    assert list(tmp_path.iterdir()) == []


def test_a_picture_is_replaced_only_if_told(figure, tmp_path):
    path = tmp_path / "picture.svg"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=r"exists\. Choose another path or add --overwrite"):
        save_figure(figure, path)
    assert path.read_text() == "mine"
    save_figure(figure, path, overwrite=True)
    assert "<svg" in path.read_text()


def test_matplotlibs_own_font_is_enough_for_most_of_europe(caplog):
    assert families(["Größe", "šaty", "ёлка", "λόγος"]) == ["DejaVu Sans"]
    assert caplog.text == ""


def test_a_font_that_is_gone_is_passed_over(tmp_path, monkeypatch, caplog):
    from matplotlib.font_manager import FontEntry, fontManager

    broken = tmp_path / "broken.ttf"
    broken.write_text("no font")
    gone = [FontEntry(str(path), name="A", weight=400) for path in (broken, tmp_path / "no.ttf")]
    monkeypatch.setattr(fontManager, "ttflist", gone)
    assert families([NOWHERE]) == ["DejaVu Sans"]
    assert "No installed font" in caplog.text


def test_characters_without_a_font_are_told_once_and_drawn(tmp_path, caplog, recwarn):
    figure = new_figure(2, 1)
    found = families([NOWHERE, NOWHERE + "a"])
    figure.subplots().set_title(NOWHERE, family=found)
    for suffix in (".png", ".svg", ".pdf"):
        save_figure(figure, tmp_path / f"picture{suffix}")
    # At level INFO, which the command line sets, fontTools tells of its work too.
    assert [record.name for record in caplog.records if record.levelname != "INFO"] == ["absl"]
    assert f"No installed font has {NOWHERE}" in caplog.text
    assert list(recwarn) == []
    assert NOWHERE in (tmp_path / "picture.svg").read_text()
