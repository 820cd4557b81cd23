"""The command `elmo-tf export-projector`."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the cat sat", "the dog"]


@pytest.fixture(autouse=True)
def files(in_temporary_folder, tmp_path):
    (tmp_path / "text.conllu").write_text("1\tthe\t_\tDET\n2\tcat\t_\tNOUN\n")


def test_a_text_is_exported(command, checkpoint_directory, tmp_path, caplog):
    status, out, err = command(
        *("export-projector", checkpoint_directory, "text.txt", "logs", "--max-tokens", "4")
    )
    assert status == 0, err
    assert json.loads(out) == {"tensors": ["layer_0", "layer_1", "layer_2"], "tokens": 4, "dim": 12}
    assert "Only the first 4 tokens" in caplog.text
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {
        *("layer_0.bytes", "layer_1.bytes", "layer_2.bytes"),
        *("metadata.tsv", "projector_config.pbtxt"),
    }


def test_selected_words_are_exported_with_their_tags(command, checkpoint_directory, tmp_path):
    status, _, err = command(
        *("export-projector", checkpoint_directory, "text.conllu", "logs", "--layers", "average"),
        *("--tag-column", "4", "--words", "cat", "dog"),
    )
    assert status == 0, err
    assert (tmp_path / "logs" / "metadata.tsv").read_text().splitlines() == [
        "token\tcontext\tsentence\tposition\ttag",
        "cat\tthe [cat]\t0\t1\tNOUN",
    ]
