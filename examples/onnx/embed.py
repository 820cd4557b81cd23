"""Embeds sentences with NumPy and ONNX Runtime, without TensorFlow and elmo_tf.

    elmo-tf export small-en exported --format onnx
    pip install numpy onnxruntime
    python examples/onnx/embed.py exported/1 text.txt vectors.npz

The text has one tokenized sentence per line. The arrays `arr_0`, `arr_1` … are the vectors of its
sentences, float32 (token, feature). For models with a character CNN over bytes.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime

BATCH_SIZE = 32  # sentences
BEGIN_WORD, END_WORD, PADDING = 259, 260, 261  # a byte has its value plus 1; 0 is no token


def char_ids(sentences: list[list[str]], max_chars: int) -> np.ndarray:
    """Returns the ids of the bytes of each token, int32 (sentence, token, char)."""
    num_tokens = max(1, *map(len, sentences))
    ids = np.zeros((len(sentences), num_tokens, max_chars), np.int32)
    for row, tokens in zip(ids, sentences, strict=True):
        row[: len(tokens)] = PADDING
        for token_ids, token in zip(row, tokens, strict=False):
            characters = token.encode("utf-8", "surrogateescape")[: max_chars - 2]
            word = [BEGIN_WORD, *(byte + 1 for byte in characters), END_WORD]
            token_ids[: len(word)] = word
    return ids


def main() -> None:
    """Writes the vectors of all sentences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, help="folder with model.onnx and options.json")
    parser.add_argument("text", type=Path, help="one tokenized sentence per line")
    parser.add_argument("vectors", help="output, .npz")
    arguments = parser.parse_args()
    options = json.loads((arguments.model / "options.json").read_text("utf-8"))
    max_chars = options["char_cnn"]["max_characters_per_token"]
    session = onnxruntime.InferenceSession(arguments.model / "model.onnx")
    with open(arguments.text, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        sentences = [line.split() for line in lines]
    vectors = []
    for start in range(0, len(sentences), BATCH_SIZE):
        batch = sentences[start : start + BATCH_SIZE]
        lengths = [len(sentence) for sentence in batch]
        inputs = {"char_ids": char_ids(batch, max_chars), "lengths": np.array(lengths, np.int32)}
        (elmo,) = session.run(["elmo"], inputs)  # (sentence, token, feature)
        vectors += [row[:length] for row, length in zip(elmo, lengths, strict=True)]
    np.savez(arguments.vectors, *vectors)


if __name__ == "__main__":
    main()
