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
    "words": {"word_input": True},
    "tied": {"word_input": True, "tie_softmax": True},
    "forward_only": {"forward_only": True},
    "bfloat16": {"precision": "mixed_bfloat16"},
    "adam": {"optimizer": "adamw", "learning_rate": 0.01, "weight_decay": 1e-4},
    "accumulated": {"accumulate": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_a_toy_corpus_is_learnt(tmp_path, toy, settings, form, skip):
    options = settings["options"]
    options = {**options, "lstm": {**options["lstm"], "use_skip_connections": skip}}
    steps = 500 if skip else 2000  # training is slower without skip connections
    config = PretrainConfig(
        corpus=toy / "train.txt",
        valid=toy / "valid.txt",
        vocab=toy / "vocab.txt",
        workdir=tmp_path / "run",
        options=options,
        recipe="paper",
        steps=steps,
        eval_every=steps,
        batch_size=8,
        unroll=9,
        num_sampled=20,
        dropout=0.0,
        **FORMS[form],
    )
    record = pretrain(config)
    last = record["perplexity"][-1]
    assert last["average"] < 1.5, last
    assert set(last) == {"step", "average", "forward", "tokens", "unknown"} | (
        set() if config.forward_only else {"backward"}
    )
    loaded = perplexity(load_language_model(tmp_path / "run"), [toy / "valid.txt"])
    assert loaded["average"] == pytest.approx(last["average"], rel=0.02)
