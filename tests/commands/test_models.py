import json
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_tf.checkpoints.named_models import MODELS


def test_models_are_listed_with_the_size_of_their_downloads(command, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    downloads = tmp_path / "elmo_tf"
    sizes = {"pt/elmo_pt_options.json": 2, "nlpl-212/options.json": 2, "layers/0123.float16": 3}
    for name, megabytes in sizes.items():
        (downloads / name).parent.mkdir(parents=True)
        (downloads / name).write_text(" " * megabytes * 1_000_000)
    _, out, _ = command("models")
    content = json.loads(out)
    assert content["cache"] == str(downloads)
    assert content["layers"] == {"folder": f"{downloads}/layers", "bytes": 3_000_000}
    sizes = {model["name"]: model["bytes"] for model in content["models"]}
    assert list(sizes) == [*MODELS, "nlpl-212"]
    assert (sizes["pt"], sizes["original"]) == (2_000_000, 0)

    _, out, _ = command("models", "--format", "markdown")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()]
    assert ["pt", "Portuguese", "unknown", "unknown", "2.0 MB"] in rows
    assert ["nlpl-212", "see meta.json", "unknown", "unknown", "2.0 MB"] in rows
    assert ["nlpl-N", "depends on N", "depends on N", "unknown", ""] in rows
    assert "| manylangs-de" not in out
    layers = "Layers for task training and probes, which may be deleted"
    assert out.endswith(f"Cache: {downloads}\n{layers}: {downloads}/layers (3.0 MB)\n")


CLI = "from elmo_tf import cli; sys.argv[1:] = {!r}.split(); cli.run()"


@pytest.mark.parametrize(
    "code",
    [
        CLI.format("models"),
        CLI.format("tokenize raw.txt --language de --output text.txt"),
        "import spacy; spacy.blank('de')",
    ],
)
def test_models_tokenize_and_spacy_import_no_tensorflow(code):
    if "models" not in code:
        pytest.importorskip("spacy")
    Path("raw.txt").write_text("Das Haus ist alt.\n")
    code = f"import sys\ntry: {code}\nfinally: assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
