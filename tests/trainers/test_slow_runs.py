"""Every form of a biLM learns a toy corpus, and the memory of trainings is limited."""

import os
import random
import subprocess
import sys

import pytest

from elmo_tf import Vocabulary
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.evaluation import perplexity
from elmo_tf.trainers import PretrainConfig, pretrain

FORMS = {
    "characters": {},
    "no skip connections": {"steps": 2000, "eval_every": 2000},  # trains more slowly
    "words": {"word_input": True},
    "tied": {"word_input": True, "tie_softmax": True},
    "forward only": {"forward_only": True},
    "bfloat16": {"precision": "mixed_bfloat16"},
    "adamw": {"optimizer": "adamw", "learning_rate": 0.01, "weight_decay": 1e-4},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_toy_corpus_is_learned(tmp_path, settings, form):
    """Four sentences that share no word, so that almost every token is predictable.

    Of the nine targets of a sentence, one is a random choice among four, and the others are
    certain: the lowest possible perplexity is 4^(1/9) = 1.17.
    """
    sentences = [" ".join(f"{word}{k}" for word in "abcdefgh") for k in range(4)]
    for name, seed in (("train", 1), ("valid", 2)):
        draw = random.Random(seed)
        lines = [draw.choice(sentences) for _ in range(400)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    Vocabulary.build([tmp_path / "train.txt"]).save(tmp_path / "vocab.txt")
    lstm = {**settings["options"]["lstm"], "use_skip_connections": form != "no skip connections"}
    changes = {"batch_size": 8, "unroll": 9, "num_sampled": 20, "dropout": 0.0, "ema": 0.0}
    changes |= {"steps": 500, "eval_every": 500, "save_every": 1000}
    changes |= {"options": {**settings["options"], "lstm": lstm}}
    files = {"corpus": "train.txt", "valid": "valid.txt", "vocab": "vocab.txt", "workdir": "run"}
    files = {setting: tmp_path / name for setting, name in files.items()}
    config = PretrainConfig(**{**settings, **files, **changes, **FORMS[form]})
    record = pretrain(config)
    last = record["perplexity"][-1]
    assert last["average"] < 1.5, last
    directions = {"forward"} if config.forward_only else {"forward", "backward"}
    assert set(last) == {"step", "average", "tokens", "unknown"} | directions
    loaded = perplexity(load_language_model(tmp_path / "run"), [tmp_path / "valid.txt"])
    assert loaded["average"] == pytest.approx(last["average"], rel=0.02)


@pytest.mark.slow
def test_the_original_size_with_800_000_tokens_needs_at_most_7_gb(tmp_path):
    """One (800,000, 512) table is 1.6 GB; Adagrad has a second one."""
    draw = random.Random(1)
    words = [f"w{number}" for number in range(799_997)]
    numbers = [min(int(draw.paretovariate(0.3)), len(words) - 1) for _ in range(4000)]
    lines = [" ".join(words[n] for n in numbers[row : row + 20]) for row in range(0, 4000, 20)]
    (tmp_path / "vocab.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *words]) + "\n")
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    arguments = "train --corpus text.txt --vocab vocab.txt --workdir run --preset original"
    arguments += " --recipe paper --steps 3 --batch-size 32 --save-every 2"
    command = [sys.executable, "-m", "elmo_tf.cli", *arguments.split()]
    process = subprocess.Popen(command, cwd=tmp_path)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert usage.ru_maxrss * 1024 < 7e9  # Linux counts KiB


@pytest.mark.slow
def test_twenty_trainings_in_a_process_do_not_accumulate_memory():
    """The graphs of earlier trainings are freed; each would take 60 MB."""
    code = """
import ctypes, gc, keras, tensorflow as tf
from elmo_tf import BiLM, BiLMConfig, Elmo

texts, labels = tf.constant(["a good film", "bad", "so so", "great"]), tf.ones((4, 1))
for number in range(20):
    if number in (10, 19):
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        print(int(open("/proc/self/statm").read().split()[1]) * 4096)
    keras.utils.clear_session()
    elmo = Elmo(BiLM(BiLMConfig.preset("tiny")), trainable_bilm=number % 2 == 0)
    model = keras.Sequential(
        [keras.Input((), dtype="string"), elmo, keras.layers.LSTM(7), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    model.fit(texts, labels, verbose=0)
    del model, elmo
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    half, end = map(int, result.stdout.split())
    assert end - half < 50e6
