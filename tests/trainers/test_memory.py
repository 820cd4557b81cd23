import os
import random
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_original_size_with_800_000_tokens_needs_at_most_7_gb(tmp_path):
    """One (800,000, 512) table is 1.6 GB; Adagrad has a second one."""
    draw = random.Random(1)
    words = [f"w{number}" for number in range(799_997)]
    lines = [
        " ".join(words[min(int(draw.paretovariate(0.3)), len(words) - 1)] for _ in range(20))
        for _ in range(200)
    ]
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
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    half, end = map(int, result.stdout.split())
    assert end - half < 50e6
