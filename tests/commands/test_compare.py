"""`elmo-tf compare`: its table and its options."""

import json

import pytest

from elmo_tf.commands.compare import _table

pytestmark = pytest.mark.usefixtures("eager_module")


def cells(table):
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert set("".join(rows[1])) <= set(":-")
    return [rows[0], *rows[2:]]


def test_table_has_one_column_per_model_and_one_row_per_measure():
    none = {"perplexity": None, "tokens_per_second": None}
    perplexities = {"forward": 101.04, "backward": 99.0, "average": 100.0, "tokens": 7}
    senses = {"first_sense": {"all": {"f1": 0.552}}, "layer_0": {"all": None}}
    probed = [
        {
            "baseline": {"all": 0.5, "unknown": 0.25},
            "layers": [
                {"layer": layer, "accuracy": {"all": share, "unknown": None}}
                for layer, share in enumerate(shares)
            ],
        }
        for shares in ([0.8, 0.95], [0.9])
    ]
    results = {
        "one": {
            "size": {"parameters": 13_600_000, "layers": 3, "dim": 256},
            "perplexity": {**perplexities, "vocabulary": 50000, "unknown": 0.0213},
            "tokens_per_second": [900.0, 1100.4, 2000.0],
            "probe": probed[0],
            "senses": {"results": {"se07": {"scores": senses}}},
        },
        "two": {
            "size": {"parameters": 93_600_000, "layers": 2, "dim": 1024},
            **none,
            "probe": probed[1],
        },
        "file": {"size": {"layers": 1, "dim": 50}, **none},
    }

    assert cells(_table(results)) == [
        ["measure", "one", "two", "file"],
        ["parameters (millions)", "13.6", "93.6", "-"],
        ["layers", "3", "2", "1"],
        ["width of a vector", "256", "1,024", "50"],
        ["tokens per second", "1,100 (900 to 2,000)", "-", "-"],
        ["perplexity per token, forward", "101.0", "-", "-"],
        ["perplexity per token, backward", "99.0", "-", "-"],
        ["perplexity per token, average", "100.0", "-", "-"],
        ["vocabulary (tokens)", "50,000", "-", "-"],
        ["unknown targets (%)", "2.1", "-", "-"],
        ["tags (%), most frequent", "50.0", "50.0", "-"],
        ["tags (%), layer 0", "80.0", "90.0", "-"],
        ["tags (%), layer 1", "95.0", "-", "-"],
        ["tags of unknown words (%), most frequent", "25.0", "25.0", "-"],
        ["tags of unknown words (%), layer 0", "-", "-", "-"],
        ["tags of unknown words (%), layer 1", "-", "-", "-"],
        ["se07 (F1), first sense", "55.2", "-", "-"],
        ["se07 (F1), layer 0", "-", "-", "-"],
    ]


def test_models_are_compared_by_text_and_tags(
    command, checkpoint_directory, forward_directory, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("the cat sat .\na dog\nthe dog sat\nthe cat\n")
    (tmp_path / "tags.conll").write_text("the D\ncat N\nsat V\n\na D\ndog N\n")

    status, out, err = command(
        *("compare", checkpoint_directory, forward_directory, "--turns", "1"),
        *("--text", tmp_path / "text.txt", "--json", tmp_path / "results.json"),
        *("--probe-train", tmp_path / "tags.conll", "--probe-test", tmp_path / "tags.conll"),
    )

    assert status == 0, err
    assert json.loads((tmp_path / "results.json").read_text()) == json.loads(out)
    models = json.loads(out)["models"]
    assert len(models) == 2
    for found in models.values():
        assert found["probe"]["test_tokens"] == 5
        assert [layer["layer"] for layer in found["probe"]["layers"]] == [0, 1, 2]
        assert len(found["tokens_per_second"]) == 1
        assert found["perplexity"] is None
