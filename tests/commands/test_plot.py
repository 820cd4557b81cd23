"""The command `elmo-tf plot`."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("eager_module")


def test_training_is_drawn_by_tokens_from_two_logs(command, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [{"step": i, "loss": 5 - i, "forward": 5 - i, "backward": 6 - i} for i in (1, 2, 3)]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "training.json").write_text('{"settings": {"batch_size": 2, "unroll": 3}}')
    logs = ("run", "run/log.jsonl")
    options = ("--by", "tokens", "--output", "training.svg")
    status, out, err = command("plot", "training", *logs, *options)
    assert (status, out, err) == (0, "", "")
    text = (tmp_path / "training.svg").read_text()
    for part in ("tokens read", "loss (nats per token)", "log.jsonl, forward<"):
        assert part in text


def test_similarities_are_drawn(command, checkpoint_directory, tmp_path):
    status, out, err = command(
        *("plot", "similarity", "the bank of the river", "a bank", "--output", "similarity.svg"),
        *("--model", checkpoint_directory),
    )
    assert (status, out) == (0, ""), err
    text = (tmp_path / "similarity.svg").read_text()
    assert text.count(">bank</text>") == 2 * 2 * 3  # occurrences, sides, layers
    assert ">cosine similarity</text>" in text


@pytest.mark.more
def test_mixing_weights_of_task_models_are_drawn(
    stdout_of, checkpoint_directory, tmp_path, eager_functions
):
    (tmp_path / "train.conll").write_text("Anna B-PER\nsings O\n")
    stdout_of(
        *("task", "train", "--task", "ner", "--train", "train.conll", "--dev", "train.conll"),
        *("--workdir", "ner", "--epochs", 1, "--units", 4),
        *("--elmo", checkpoint_directory, "--placement", "both"),
    )

    stdout_of("plot", "weights", "ner/", "--output", "weights.svg")
    text = (tmp_path / "weights.svg").read_text()
    assert ">ner, input<" in text
    assert ">ner, output<" in text
