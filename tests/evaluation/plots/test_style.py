import numpy as np
import pytest
from PIL import Image

from elmo_tf.evaluation.plots.style import families, new_figure, save_figure

# A private-use character, which common fonts do not have.
WITHOUT_FONT = "\U0010fffd"


@pytest.fixture
def figure():
    figure = new_figure(2, 1)
    figure.subplots().set_title("a title")
    return figure


def test_a_picture_has_the_given_size_and_is_not_empty(figure, tmp_path):
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


def test_the_default_font_covers_european_scripts(caplog):
    assert families(["Größe", "šaty", "ёлка", "λόγος"]) == ["DejaVu Sans"]
    assert caplog.text == ""


def test_missing_and_broken_fonts_are_skipped(tmp_path, monkeypatch, caplog):
    from matplotlib.font_manager import FontEntry, fontManager

    broken = tmp_path / "broken.ttf"
    broken.write_text("no font")
    unusable = [
        FontEntry(str(path), name="A", weight=400) for path in (broken, tmp_path / "no.ttf")
    ]
    monkeypatch.setattr(fontManager, "ttflist", unusable)
    assert families([WITHOUT_FONT]) == ["DejaVu Sans"]
    assert "No installed font" in caplog.text


def test_characters_without_a_font_are_drawn_with_one_warning(tmp_path, caplog, recwarn):
    figure = new_figure(2, 1)
    found = families([WITHOUT_FONT, WITHOUT_FONT + "a"])
    figure.subplots().set_title(WITHOUT_FONT, family=found)
    for suffix in (".png", ".svg", ".pdf"):
        save_figure(figure, tmp_path / f"picture{suffix}")
    # At level INFO, which the command line sets, fontTools logs messages too.
    assert [record.name for record in caplog.records if record.levelname != "INFO"] == ["absl"]
    assert f"No installed font has {WITHOUT_FONT}" in caplog.text
    assert list(recwarn) == []
    assert WITHOUT_FONT in (tmp_path / "picture.svg").read_text()
