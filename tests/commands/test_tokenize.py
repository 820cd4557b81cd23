"""The command `elmo-tf tokenize`."""

import gzip
import os
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest

from elmo_tf import Vocabulary
from elmo_tf.text.tokenizers import recorded_tokenizer

pytest.importorskip("spacy")


def test_tokenize_writes_one_sentence_per_line(command, caplog):
    Path("raw.txt").write_text("Das Haus ist alt. Wer wohnt dort?\n\nNiemand, z.B. im\tWinter!\n")
    caplog.set_level("INFO")
    call = ("tokenize", "raw.txt", "--language", "de", "--output", "text.txt")
    assert command(*call)[0] == 0
    assert Path("text.txt").read_text().splitlines() == [
        "Das Haus ist alt .",
        "Wer wohnt dort ?",
        "Niemand , z.B. im Winter !",
    ]
    assert "text.txt holds 3 sentences of 15 tokens." in caplog.text
    assert command(*call)[0] == 2  # the output exists
    assert command("vocab", "text.txt", "--output", "vocab.txt")[0] == 0
    assert recorded_tokenizer(["text.txt"]) == recorded_tokenizer(["vocab.txt"]) == "de"
    call = ("vocab", "text.txt", "--output", "vocab.txt", "--tokenizer", "de-own", "--overwrite")
    Path("vocab.txt").write_text("earlier")
    assert command(*call)[0] == 0
    assert Path("vocab.txt").read_text().startswith("<S>\n")
    assert recorded_tokenizer(["vocab.txt", "raw.txt"]) == "de-own"
    assert recorded_tokenizer(["vocab.txt", "text.txt"]) is None
    assert "The tokenizers of the texts differ: ['de', 'de-own']" in caplog.text


def test_compressed_outputs_and_a_first_quotation_can_be_read(command):
    Path("raw.txt").write_text(" > quoted\n")
    tokens, vocabulary = "text.txt.gz", "vocab.txt.gz"
    assert command("tokenize", "raw.txt", "--language", "xx", "--output", tokens)[0] == 0
    assert command("vocab", tokens, "--output", vocabulary)[0] == 0
    assert gzip.decompress(Path(tokens).read_bytes()) == b" > quoted\n"
    assert Vocabulary.load(vocabulary).tokens[3:] == (">", "quoted")
    assert recorded_tokenizer([vocabulary]) == "xx"
    Path("raw.txt").write_text("no record")
    assert command("vocab", "raw.txt", "--output", vocabulary, "--overwrite")[0] == 0
    assert recorded_tokenizer([vocabulary]) is None


def test_a_signal_leaves_no_files():
    call = ["-m", "elmo_tf.cli", "tokenize", "-", "--language", "xx", "--output", "text.txt"]
    with subprocess.Popen([sys.executable, *call], stdin=subprocess.PIPE) as process:
        while not os.listdir():
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 143
    assert os.listdir() == []


def test_several_processes_keep_the_order_of_a_large_text(command, caplog):
    caplog.set_level("INFO")
    lines = [f"Satz {number}." for number in range(50_000)]
    Path("raw.txt").write_text("\n".join(lines))
    assert command("tokenize", "raw.txt", "--language", "xx", "--output", "text.txt")[0] == 0
    assert Path("text.txt").read_text().splitlines() == [f"{line[:-1]} ." for line in lines]
    assert "holds 50,000 sentences of 150,000 tokens." in caplog.text


def test_text_is_converted_to_nfc(command, caplog):
    caplog.set_level("INFO")
    Path("raw.txt").write_text(unicodedata.normalize("NFD", "한국어 café") + "\nab\n", "utf-8")
    assert command("tokenize", "raw.txt", "--language", "ko", "--output", "text.txt")[0] == 0
    assert Path("text.txt").read_text("utf-8") == "한국어 café\nab\n"
    assert "Text is normalized to NFC for the tokenizer, such as" in caplog.text
