"""The whole way in two minutes: vectors at once ─► own text ─► SavedModel ─► server ─► neighbours.

    python examples/demo.py --workdir demo

The English model that comes with the package embeds some sentences, is trained on with a corpus,
exported, served and asked. Without `--corpus`, that is the reference documentation that ships
inside Python. The exit status is 0 if every part has worked.
"""

import argparse
import random
import re
import sys
import time
from pathlib import Path

import numpy as np

import elmo_tf
from elmo_tf.logs import import_tensorflow, plain_logs

MODEL = "small-en"
BANK = "bank"
SENTENCES = (
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
FEW = 20
# Words of several meanings; the commonest one in the text is shown.
AMBIGUOUS = (
    *("for", "with", "as", "bank", "light", "right", "play", "spring", "match", "order", "note"),
    *("class", "case", "form", "name", "state", "kind", "mean", "point", "work", "house", "hand"),
)


def main() -> int:
    """Runs all parts; returns the exit status."""
    start = time.monotonic()
    arguments = _arguments()
    plain_logs()
    import_tensorflow()
    from elmo_tf.threads import share_cores_for_embedding

    share_cores_for_embedding()
    workdir = Path(arguments.workdir)

    heading(f"Vectors of {MODEL}, at once")
    embedder = elmo_tf.Embedder(MODEL)
    show_senses(embedder)
    print(f"\n{time.monotonic() - start:.0f} s after the start.")

    heading("Text")
    train, held_out = write_text(arguments.corpus, workdir)
    vocabulary = elmo_tf.Vocabulary.build([train], min_count=MIN_COUNT)
    vocabulary.save(workdir / "vocab.txt")
    print(f"{len(vocabulary)} tokens occur at least {MIN_COUNT} times")

    heading("Training on with it")
    checkpoint = workdir / "checkpoint"
    record = elmo_tf.trainers.pretrain(
        elmo_tf.trainers.PretrainConfig(
            corpus=str(train),
            valid=str(held_out),
            vocab=workdir / "vocab.txt",
            workdir=checkpoint,
            start_from=MODEL,
            steps=arguments.steps,
            batch_size=16,
            num_sampled=1024,
            optimizer="adamw",
            learning_rate=0.002,
            schedule="cosine",
            warmup_steps=min(20, arguments.steps // 10),
            precision="mixed_bfloat16",
            overwrite=True,
        )
    )
    show_perplexity(record["perplexity"])

    heading("Export")
    bilm = elmo_tf.load_bilm(checkpoint)
    exported = elmo_tf.saved_models.export(bilm, workdir / "exported", overwrite=True)
    print(f"{exported} gives what the live model gives, loaded by Python and as a server loads it")

    heading("Serving")
    embedder = elmo_tf.Embedder(bilm, layers="all")
    query(workdir / "exported", embedder, sentences(held_out))

    heading("Neighbours")
    text = [*sentences(train), *sentences(held_out)]
    show_neighbours(embedder, text, arguments.word or ambiguous_word(text))
    print(f"\nAll parts have worked, in {time.monotonic() - start:.0f} s.")
    return 0


def show_senses(embedder: "elmo_tf.Embedder") -> None:
    """Prints how alike the occurrences of a word of two meanings are, by the top layer."""
    text = [sentence.split() for sentence in SENTENCES]
    occurrences = elmo_tf.evaluation.Occurrences(embedder, text, BANK)
    top = embedder.bilm.config.lstm.num_layers
    print(f"{embedder.dim} numbers a token in each of {top + 1} layers. Nearest in the top one:\n")
    for occurrence in range(len(text)):
        (near,) = occurrences.nearest(occurrence, top, top_n=1)
        for number, position in (occurrences.places[occurrence], (near.sentence, near.position)):
            print(f"    {in_context(text[number], position)}")
        print(f"    {near.similarity:40.3f}")


def write_text(corpus: str | None, workdir: Path) -> tuple[Path, Path]:
    """Writes tokenised text to train on and text held out, without repeated paragraphs."""
    if corpus is None:
        paragraphs, name = documentation(), "Python's own documentation"
    else:
        text = Path(corpus).read_text(encoding="utf-8", errors="surrogateescape")
        paragraphs, name = text[:MAX_CHARACTERS].splitlines(), corpus
    # Tokens are words and signs; a paragraph that was seen before would be no held-out text.
    tokenised = [" ".join(re.findall(r"\w+|[^\w\s]", paragraph)) for paragraph in paragraphs]
    distinct = [paragraph for paragraph in dict.fromkeys(tokenised) if paragraph]
    random.Random(0).shuffle(distinct)
    num_held_out = max(1, round(HELD_OUT * len(distinct)))
    folder = workdir / "text"
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "train.txt", folder / "held_out.txt"
    if corpus is not None and any(file.resolve() == Path(corpus).resolve() for file in files):
        raise ValueError(f"The demo writes to {corpus} itself: copy it to another place.")
    for file, part in zip(files, (distinct[num_held_out:], distinct[:num_held_out]), strict=True):
        lines = [line for paragraph in part for line in split_sentences(paragraph)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
    print(f"{name}: {len(distinct)} paragraphs, {num_held_out} of them held out")
    return files


def documentation() -> list[str]:
    """The paragraphs of `pydoc_data.topics`."""
    from pydoc_data.topics import topics

    return [
        paragraph for topic in sorted(topics) for paragraph in re.split(r"\n\s*\n", topics[topic])
    ]


def split_sentences(paragraph: str) -> list[str]:
    """Cuts tokenised text behind full stops that a capital letter follows."""
    return re.split(r"(?<= [.!?]) (?=[A-Z])", paragraph)


def sentences(file: Path) -> list[list[str]]:
    """The tokens of each line."""
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    return [line.split() for line in text.split("\n") if line.split()]


def show_perplexity(evaluations: list[dict]) -> None:
    """Prints held-out perplexity over the steps; raises if it has not fallen to a quarter."""
    print("\n  step  forward  backward  average   (held-out perplexity per token, full softmax)")
    for one in evaluations:
        print(
            f"{one['step']:6d} {one['forward']:8.1f} {one['backward']:9.1f} {one['average']:8.1f}"
        )
    first, last = evaluations[0]["average"], evaluations[-1]["average"]
    if not last < first / 4:
        raise RuntimeError(f"Held-out perplexity went from {first:.1f} to {last:.1f} only.")


def query(exported: Path, embedder: "elmo_tf.Embedder", text: list[list[str]]) -> None:
    """Serves the exported model, asks it over gRPC, and compares with the checkpoint's vectors."""
    asked = text[:3]
    with (
        elmo_tf.saved_models.serve(exported, port=0, rest_port=0) as server,
        elmo_tf.saved_models.Client(f"localhost:{server.port}") as client,
    ):
        answer = client.predict([" ".join(tokens) for tokens in asked], ("elmo", "sequence_len"))
    for tokens, vectors, length in zip(asked, answer["elmo"], answer["sequence_len"], strict=True):
        wanted = embedder.encode([tokens], output="token")[0].mean(axis=0)  # an even mix
        difference = np.abs(vectors[:length] - wanted).max()
        print(f"{vectors[:length].shape} vectors for: {' '.join(tokens)[:60]}")
        if not difference < 1e-5:
            raise RuntimeError(f"The server's vectors differ from the checkpoint's: {difference}")
    print("They came over gRPC and equal the checkpoint's within 1e-5.")


def ambiguous_word(text: list[list[str]]) -> str:
    """A word of several meanings that the text often has, or else its commonest."""
    counts = {one: sum(one in tokens for tokens in text) for one in AMBIGUOUS}
    word = max(counts, key=counts.get)
    if counts[word] >= FEW:
        return word
    common = elmo_tf.Vocabulary.build(" ".join(tokens) for tokens in text).tokens[3:]
    return next((one for one in common if one.isalpha()), common[0])


def show_neighbours(embedder: "elmo_tf.Embedder", text: list[list[str]], word: str) -> None:
    """Prints the nearest occurrences of one word, layer by layer."""
    occurrences = elmo_tf.evaluation.Occurrences(embedder, text, word)
    top = embedder.bilm.config.lstm.num_layers
    for occurrence in occurrences.least_alike(layer=top):
        number, position = occurrences.places[occurrence]
        print(f"\n{word!r} in:     {in_context(occurrences.sentences[number], position)}")
        for layer in range(top + 1):
            print(f"  layer {layer}")
            for near in occurrences.nearest(occurrence, layer, top_n=4):
                context = in_context(occurrences.sentences[near.sentence], near.position)
                print(f"    {near.similarity:.3f}   {context}")
    print("\n(Layer 0 sees the word alone, so all its occurrences are alike there.)")


def in_context(tokens: list[str], position: int, width: int = 5) -> str:
    """The word with its neighbours, itself in brackets."""
    before = " ".join(tokens[max(0, position - width) : position])
    after = " ".join(tokens[position + 1 : position + 1 + width])
    return f"{before[-40:]:>40} [{tokens[position]}] {after[:40]}"


def heading(title: str) -> None:
    """Prints what comes next."""
    print(f"\n== {title} ==", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--corpus", metavar="FILE", help="text, one sentence or paragraph a line; UTF-8"
    )
    parser.add_argument("--workdir", default="demo", metavar="DIR", help="gets all files (demo)")
    parser.add_argument("--steps", type=int, default=400, metavar="N", help="of training (400)")
    parser.add_argument("--word", help="whose occurrences are shown")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
