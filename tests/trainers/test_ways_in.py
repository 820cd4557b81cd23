"""Every form of a biLM learns a toy corpus."""

import random

import pytest

from elmo_tf import Vocabulary
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.evaluation import perplexity
from elmo_tf.trainers import PretrainConfig, pretrain


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A corpus of four sentences that share no word, so that almost every token is predictable.

    Of the nine targets of a sentence, one is a random choice among four, and the others are
    certain: the lowest possible perplexity is 4^(1/9) = 1.17.
    """
    folder = tmp_path_factory.mktemp("toy")
    sentences = [" ".join(f"{word}{k}" for word in "abcdefgh") for k in range(4)]
    for name, seed in (("train", 1), ("valid", 2)):
        draw = random.Random(seed)
        lines = [draw.choice(sentences) for _ in range(400)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    Vocabulary.build([folder / "train.txt"]).save(folder / "vocab.txt")
    return folder


FORMS = {
    "characters": {},
    "no skip connections": {"steps": 2000},  # trains more slowly
    "words": {"word_input": True},
    "tied": {"word_input": True, "tie_softmax": True},
    "forward only": {"forward_only": True},
    "bfloat16": {"precision": "mixed_bfloat16"},
    "adamw": {"optimizer": "adamw", "learning_rate": 0.01, "weight_decay": 1e-4},
    "accumulated": {"accumulate": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_toy_corpus_is_learned(tmp_path, toy, settings, form):
    options = settings["options"]
    if form == "no skip connections":
        options = {**options, "lstm": {**options["lstm"], "use_skip_connections": False}}
    settings = {"steps": 500, **FORMS[form]}
    config = PretrainConfig(
        corpus=toy / "train.txt",
        valid=toy / "valid.txt",
        vocab=toy / "vocab.txt",
        workdir=tmp_path / "run",
        options=options,
        recipe="paper",
        eval_every=settings["steps"],
        batch_size=8,
        unroll=9,
        num_sampled=20,
        dropout=0.0,
        **settings,
    )
    record = pretrain(config)
    last = record["perplexity"][-1]
    assert last["average"] < 1.5, last
    directions = {"forward"} if config.forward_only else {"forward", "backward"}
    assert set(last) == {"step", "average", "tokens", "unknown"} | directions
    loaded = perplexity(load_language_model(tmp_path / "run"), [toy / "valid.txt"])
    assert loaded["average"] == pytest.approx(last["average"], rel=0.02)
