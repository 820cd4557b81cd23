"""Shows the main parts of elmo_tf in two minutes: embed, train, export, serve, find neighbors.

    python examples/demo.py --workdir demo

The included English model embeds some sentences, is trained further on a corpus, exported, served
and queried. The default corpus is the reference documentation that ships with Python. The exit
status is 0 if every step succeeds.
"""

import argparse
import random
import re
import sys
import time
from pathlib import Path

import numpy as np

import elmo_tf
from elmo_tf.logs import plain_logs
from elmo_tf.processors import import_tensorflow
from elmo_tf.text.tokenizers import LanguageTokenizer, token_sentences

MODEL = "small-en"
BANK_SENTENCES = (
    "The bank lent them the money for a new house .",
    "He asked the bank for a loan , but it refused .",
    "She owed the bank a large sum of money .",
    "They walked along the bank of the river until dark .",
    "Trees grew on the north bank of the stream .",
    "The boat was tied up at the bank of the canal .",
)
MAX_CHARACTERS = 2_000_000
HELD_OUT = 0.1
MIN_COUNT = 2
# The most frequent of these words in the text is shown, if it occurs in enough sentences.
AMBIGUOUS = (
    *("for", "with", "as", "bank", "light", "right", "play", "spring", "match", "order", "note"),
    *("class", "case", "form", "name", "state", "kind", "mean", "point", "work", "house", "hand"),
)
MIN_SENTENCES = 20


def main() -> int:
    """Runs all parts and returns the exit status."""
    start = time.monotonic()
    arguments = parse_arguments()
    plain_logs()
    import_tensorflow()

    workdir = Path(arguments.workdir)

    print_heading(f"Vectors of {MODEL}")
    embedder = elmo_tf.Embedder(MODEL)
    show_senses(embedder)
    print(f"\n{time.monotonic() - start:.0f} s after the start.")

    print_heading("Text")
    train, held_out = write_text(arguments.corpus, workdir)
    vocabulary = elmo_tf.Vocabulary.build([train], min_count=MIN_COUNT)
    vocabulary.save(workdir / "vocab.txt")
    print(f"{len(vocabulary)} tokens occur at least {MIN_COUNT} times")

    print_heading(f"Training, starting from {MODEL}")
    checkpoint = workdir / "checkpoint"
    record = elmo_tf.trainers.pretrain(
        elmo_tf.trainers.PretrainConfig(
            corpus=str(train),
            valid=str(held_out),
            vocab=workdir / "vocab.txt",
            workdir=checkpoint,
            start_from=MODEL,
            steps=arguments.steps,
            eval_every=-(-arguments.steps // 2),
            batch_size=16,
            num_sampled=1024,
            warmup_steps=min(20, arguments.steps // 10),
            precision="mixed_bfloat16",
            overwrite=True,
        )
    )
    show_perplexity(record["perplexity"])

    print_heading("Export")
    bilm = elmo_tf.load_bilm(checkpoint)
    exported = elmo_tf.saved_models.export(bilm, workdir / "exported", overwrite=True)
    print(f"{exported} returns the vectors of the checkpoint")

    print_heading("Serving")
    embedder = elmo_tf.Embedder(bilm)
    query(workdir / "exported", embedder, read_sentences(held_out))

    print_heading("Neighbors")
    text = [*read_sentences(train), *read_sentences(held_out)]
    show_neighbors(embedder, text, arguments.word or ambiguous_word(text))
    print(f"\nAll steps succeeded. The demo took {time.monotonic() - start:.0f} s.")
    return 0


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--corpus", metavar="FILE", help="UTF-8 text, one sentence or paragraph per line"
    )
    parser.add_argument("--workdir", default="demo", metavar="DIR", help="output (default: demo)")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="training steps (100)")
    parser.add_argument("--word", help="word to show the neighbors of")
    return parser.parse_args()


def print_heading(title: str) -> None:
    """Prints the title of the next part."""
    print(f"\n== {title} ==", flush=True)


def show_senses(embedder: "elmo_tf.Embedder") -> None:
    """Prints the nearest occurrence of each occurrence of "bank", by the top layer."""
    text = [sentence.split() for sentence in BANK_SENTENCES]
    places, cosines = compare_occurrences(embedder, text, "bank")
    print(f"{len(cosines)} layers of {embedder.dim} numbers per token. Nearest by the top layer:\n")
    for occurrence, row in enumerate(cosines[-1]):
        near = nearest(row, occurrence, places)[0]
        for number, position in (places[occurrence], places[near]):
            print(f"    {in_context(text[number], position)}")
        print(f"    {row[near]:40.3f}")


def compare_occurrences(
    embedder: "elmo_tf.Embedder", text: list[list[str]], word: str
) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Returns the sentences and positions of a word, and their cosines by layer."""
    numbers = [number for number, tokens in enumerate(text) if word in tokens]
    places, vectors = [], []
    for number, layers in zip(numbers, embedder.embed([text[k] for k in numbers]), strict=True):
        for position in [k for k, token in enumerate(text[number]) if token == word]:
            places.append((number, position))
            vectors.append(layers[:, position])
    stacked = np.stack(vectors, axis=1)  # (layer, occurrence, feature)
    units = stacked / np.linalg.norm(stacked, axis=-1, keepdims=True)
    return places, units @ units.transpose(0, 2, 1)


def nearest(cosines: np.ndarray, occurrence: int, places: list[tuple[int, int]]) -> list[int]:
    """Returns the occurrences in other sentences, the most similar first."""
    here = places[occurrence][0]
    return [k for k in np.argsort(-cosines) if places[k][0] != here]


def write_text(corpus: str | None, workdir: Path) -> tuple[Path, Path]:
    """Writes tokenized training text and held-out text, without repeated paragraphs."""
    if corpus is None:
        from pydoc_data.topics import topics

        name = "Python's documentation"
        paragraphs = [part for key in sorted(topics) for part in re.split(r"\n\s*\n", topics[key])]
    else:
        name = corpus
        text = Path(corpus).read_text(encoding="utf-8", errors="surrogateescape")
        paragraphs = text[:MAX_CHARACTERS].splitlines()
    tokenizer = LanguageTokenizer("xx")  # any language
    tokenized = ["\n".join(map(" ".join, token_sentences([p], tokenizer))) for p in paragraphs]
    distinct = [paragraph for paragraph in dict.fromkeys(tokenized) if paragraph]
    random.Random(0).shuffle(distinct)
    num_held_out = max(1, round(HELD_OUT * len(distinct)))
    folder = workdir / "text"
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "train.txt", folder / "held_out.txt"
    if corpus is not None and any(file.resolve() == Path(corpus).resolve() for file in files):
        raise ValueError(f"The demo would overwrite its input {corpus}: move it elsewhere.")
    for file, part in zip(files, (distinct[num_held_out:], distinct[:num_held_out]), strict=True):
        file.write_text("\n".join(part) + "\n", encoding="utf-8", errors="surrogateescape")
    print(f"{name}: {len(distinct)} paragraphs, {num_held_out} of them held out")
    return files


def read_sentences(file: Path) -> list[list[str]]:
    """Returns the tokens of each line."""
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    return [line.split() for line in text.split("\n") if line.split()]


def show_perplexity(evaluations: list[dict]) -> None:
    """Prints held-out perplexity by step. Raises if it has not fallen to half."""
    print("\n  step  forward  backward  average   (held-out perplexity per token, full softmax)")
    for row in evaluations:
        print(
            f"{row['step']:6d} {row['forward']:8.1f} {row['backward']:9.1f} {row['average']:8.1f}"
        )
    first, last = evaluations[0]["average"], evaluations[-1]["average"]
    if not last < first / 2:
        raise RuntimeError(f"Held-out perplexity only fell from {first:.1f} to {last:.1f}.")


def query(exported: Path, embedder: "elmo_tf.Embedder", text: list[list[str]]) -> None:
    """Serves the exported model and compares its vectors over gRPC with the checkpoint's."""
    sentences = text[:3]
    with (
        elmo_tf.saved_models.serve(exported, port=0, rest_port=0) as server,
        elmo_tf.saved_models.Client(f"localhost:{server.port}") as client,
    ):
        strings = [" ".join(tokens) for tokens in sentences]
        answer = client.predict(strings, ("elmo", "sequence_len"))
    answers = zip(sentences, answer["elmo"], answer["sequence_len"], strict=True)
    for tokens, vectors, length in answers:
        expected = embedder.encode([tokens], output="token")[0]  # equal mixing weights
        difference = np.abs(vectors[:length] - expected).max()
        print(f"{vectors[:length].shape} vectors for: {' '.join(tokens)[:60]}")
        if not difference < 1e-5:
            raise RuntimeError(f"The server's vectors differ from the checkpoint's: {difference}")
    print("The vectors of the server equal the checkpoint's within 1e-5.")


def ambiguous_word(text: list[list[str]]) -> str:
    """Returns a frequent word with several meanings, or else the most frequent word."""
    counts = {word: sum(word in tokens for tokens in text) for word in AMBIGUOUS}
    word = max(counts, key=counts.get)
    if counts[word] >= MIN_SENTENCES:
        return word
    common = elmo_tf.Vocabulary.build(" ".join(tokens) for tokens in text).tokens[3:]
    return next((word for word in common if word.isalpha()), common[0])


def show_neighbors(embedder: "elmo_tf.Embedder", text: list[list[str]], word: str) -> None:
    """Prints the nearest occurrences of a word in each layer."""
    places, cosines = compare_occurrences(embedder, text, word)
    # The two occurrences that are least alike in the top layer.
    for occurrence in np.unravel_index(cosines[-1].argmin(), cosines[-1].shape):
        number, position = places[occurrence]
        print(f"\n{word!r} in:     {in_context(text[number], position)}")
        for layer, rows in enumerate(cosines):
            print(f"  layer {layer}")
            for near in nearest(rows[occurrence], occurrence, places)[:4]:
                number, position = places[near]
                context = in_context(text[number], position)
                print(f"    {rows[occurrence, near]:.3f}   {context}")
    print("\n(Layer 0 has no context: there, all occurrences of a word are equal.)")


def in_context(tokens: list[str], position: int, width: int = 5) -> str:
    """Returns a token in brackets, with up to `width` tokens on each side."""
    before = " ".join(tokens[max(0, position - width) : position])
    after = " ".join(tokens[position + 1 : position + 1 + width])
    return f"{before[-40:]:>40} [{tokens[position]}] {after[:40]}"


if __name__ == "__main__":
    sys.exit(main())
