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
    "no skip connections": {"steps": 2000, "eval_every": 2000},  # trains more slowly
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
    lstm = {**settings["options"]["lstm"], "use_skip_connections": form != "no skip connections"}
    changes = {"batch_size": 8, "unroll": 9, "num_sampled": 20, "dropout": 0.0, "ema": 0.0}
    changes |= {"steps": 500, "eval_every": 500, "save_every": 1000}
    changes |= {"options": {**settings["options"], "lstm": lstm}}
    files = {"corpus": toy / "train.txt", "valid": toy / "valid.txt", "vocab": toy / "vocab.txt"}
    config = PretrainConfig(
        **{**settings, **files, **changes, **FORMS[form]}, workdir=tmp_path / "run"
    )
    record = pretrain(config)
    last = record["perplexity"][-1]
    assert last["average"] < 1.5, last
    directions = {"forward"} if config.forward_only else {"forward", "backward"}
    assert set(last) == {"step", "average", "tokens", "unknown"} | directions
    loaded = perplexity(load_language_model(tmp_path / "run"), [toy / "valid.txt"])
    assert loaded["average"] == pytest.approx(last["average"], rel=0.02)
