"""The subcommands that read a language model: evaluate, score and substitutes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.evaluation import sentence_scores, substitutes
from nested_arrays import assert_close
from runs import LINES

pytestmark = pytest.mark.usefixtures("eager_module")


def test_evaluate_prints_one_json_object(stdout_of, trained, caplog):
    out = stdout_of("evaluate", trained, "text.txt")
    result = json.loads(out)
    assert set(result) == {"forward", "backward", "average", "tokens", "unknown"}
    assert result["tokens"] == sum(len(line.split()) + 1 for line in LINES if line)
    mean = np.sqrt(result["forward"] * result["backward"])
    assert result["average"] == pytest.approx(mean, rel=1e-6)
    known = (trained / "vocab.txt").read_text().split()
    unknown = [word for line in LINES for word in line.split() if word not in known]
    assert result["unknown"] == len(unknown) / result["tokens"] > 0.05
    assert f"{result['unknown']:.1%} of the targets are not in the vocabulary" in caplog.text


def test_a_model_of_proteins_is_trained_and_evaluated_on_fasta(command, stdout_of):
    Path("odd.txt").write_text(">P1\nMKTA\nYIAK\n>P2\nMKKA\n" * 9)
    Path("odd.faa").write_bytes(Path("odd.txt").read_bytes())
    fasta = "--input-format", "fasta"
    assert command("vocab", "odd.txt", "--output", "vocab.txt", *fasta)[0] == 0
    assert Path("vocab.txt").read_text().split()[3:] == ["K", "A", "M", "I", "T", "Y"]
    options = ("--preset", "tiny", "--word-input", "--steps", "2", "--batch-size", "2")
    texts = ("--corpus", "odd.txt", "--valid", "odd.txt", *fasta)
    out = stdout_of(*("train", *texts, "--vocab", "vocab.txt", "--workdir", "run", *options))
    (last,) = json.loads(out)["perplexity"]
    result = json.loads(command("evaluate", "run", "odd.faa")[1])
    assert result == pytest.approx({k: v for k, v in last.items() if k != "step"}, rel=1e-5)
    assert result["tokens"] == 9 * (8 + 1 + 4 + 1)


def test_score_prints_sentences_and_their_tokens(command, stdout_of, trained, caplog):
    Path("one.txt").write_bytes(b"the cat \xff\n\n")
    out = stdout_of("score", trained, "one.txt", "--per-token")
    assert r'"\udcff"' in out
    sentence, empty = map(json.loads, out.splitlines())
    (score,) = sentence_scores(load_language_model(trained), ["the cat \udcff"])
    assert sentence["tokens"] == 4
    assert [word["token"] for word in sentence["words"]] == ["<S>", "the", "cat", "\udcff", "</S>"]
    assert set(sentence["words"][0]) == {"token", "backward", "surprisal"}
    assert set(sentence["words"][-1]) == {"token", "forward", "surprisal"}
    for direction in ("forward", "backward"):
        assert sentence[direction] == pytest.approx(score.log_probs[direction], rel=1e-5)
        words = [word for word in sentence["words"] if direction in word]
        values = [word[direction] for word in words]
        assert sum(values) == pytest.approx(sentence[direction], rel=1e-6)
        bits = [word["surprisal"][direction] for word in words]
        assert [2**-each for each in bits] == pytest.approx(np.exp(values), rel=1e-6)
        assert sentence["surprisal"][direction] == pytest.approx(np.mean(bits), rel=1e-6)
    assert [word["token"] for word in empty["words"]] == ["<S>", "</S>"]
    assert "raw text" not in caplog.text
    Path("raw.txt").write_text("The cat sat.")
    command("score", trained, "raw.txt")
    assert "1 that look like raw text, such as 'sat.'" in caplog.text


def test_substitutes_reads_several_sentences_with_marked_tokens_or_positions(
    command, stdout_of, trained, stdin
):
    stdin(b"the **cat** sat\n\n **a** dog **saw** **\n")
    out = stdout_of("substitutes", "--top", "2", trained, "the **cat** **fled**", "-", "**dog**")
    results = [json.loads(line) for line in out.splitlines()]
    wanted = [
        *((0, 1, "cat", "the cat fled"), (0, 2, "fled", "the cat fled")),
        (1, 1, "cat", "the cat sat"),
        *((3, 0, "a", "a dog saw **"), (3, 2, "saw", "a dog saw **")),
        (4, 0, "dog", "dog"),
    ]
    model = load_language_model(trained)
    for result, (index, position, token, sentence) in zip(results, wanted, strict=True):
        place = result["sentence"], result["position"], result["token"]
        assert place == (index, position, token)
        ((best,),) = substitutes(model, [sentence], [[position]], top_n=2)
        assert [one["token"] for one in result["substitutes"]] == [one.token for one in best]
        totals = [one["total"] for one in result["substitutes"]]
        assert totals == pytest.approx([one.total for one in best], abs=1e-5)
    stdin(b"\nthe **dog**\n")
    positions = ("--position", "1", "--position", "0")
    _, out, _ = command("substitutes", trained, "the cat", "-", *positions, "--top", "1")
    results = [json.loads(line) for line in out.splitlines()]
    places = [(each["sentence"], each["position"], each["token"]) for each in results]
    assert places == [(0, 1, "cat"), (0, 0, "the"), (2, 1, "dog"), (2, 0, "the")]
    stdin(b"")
    assert command("substitutes", trained, "-")[:2] == (0, "")


@pytest.mark.parametrize("name", ["evaluate", "score"])
def test_a_dash_reads_stdin(command, trained, stdin, monkeypatch, name):
    Path("temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", "temporary")
    wanted = command(name, trained, "text.txt")
    stdin(Path("text.txt").read_bytes())
    found = command(name, trained, "-")
    assert wanted[0] == found[0] == 0
    assert found[1] == wanted[1]
    if name == "score":  # in the order of the arguments
        Path("one.txt").write_text("the cat\n")
        stdin(b"the\n")
        lines = command(name, trained, "one.txt", "-", "text.txt")[1].splitlines()
        assert [json.loads(line)["tokens"] for line in lines[:2]] == [3, 2]
        parts = (lines[2:], wanted[1].splitlines())
        assert_close(*([json.loads(line) for line in part] for part in parts), rtol=1e-6)
    stdin(b"the\ncat\rdog\n")
    status, _, err = command(name, trained, "-")
    assert status == 1
    assert re.search("stdin>?, line 2: a carriage return between two tokens", err)
    assert not list(Path("temporary").iterdir())
