"""Measures sentence vectors other than those of `encode`, and writes the page "Which vectors?".

    python benchmarks/sentence_vectors.py --data DATA --korean held_out.txt

DATA is described in docs/results.md. `held_out.txt` is Korean text that was held out from small-ko,
tokenized by `elmo-tf tokenize --language ko-morph`.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from korean import REVIEWS, TOKENIZER, joined_tokens, parts_of, read_reviews
from results import labeled_texts, write_measurement
from results_pages import write_pages
from studies import Run, settings_of
from tfidf import Texts

from elmo_tf import Embedder
from elmo_tf.checkpoints.named_models import find_named_model
from elmo_tf.text.tokenizers import LanguageTokenizer

SMOOTHING = 1e-3  # of the weights by frequency (Arora et al. 2017)
HALVES = 1_000  # Korean sentences of at least 12 tokens
METHODS = (
    "mean of all layers (`encode`)",
    "the same, standardized",
    "weighted by inverse frequency, without the first principal component",
    "mean and maximum",
    "layer 0",
    "top layer",
    "layer 0 and top layer",
)


def main() -> None:
    """Measures everything, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--korean", type=Path, required=True, help="held-out Korean text")
    arguments = parser.parse_args()
    english, korean = Sentences("small-en"), Sentences("small-ko")
    found = {
        "SST-2": classified(english, *sst(arguments.data)),
        "NSMC, 4,000": classified(korean, *nsmc(arguments.data)),
        "SNLI": entailed(english, *snli(arguments.data)),
        "SQuAD": retrieved(english, *squad(arguments.data)),
        "Korean halves": retrieved(korean, *halves_of_sentences(arguments.korean)),
    }
    write_measurement("sentence_vectors", found)
    write_pages()


class Sentences:
    """Vectors of tokenized sentences by each method, of one model."""

    def __init__(self, model: str):
        self._embedder = Embedder(model, layers="all")
        vocabulary = find_named_model(model).folder / "vocab.txt"
        tokens = vocabulary.read_text("utf-8").split("\n")
        share = 1 / np.log(len(tokens))  # Zipf's law: the token of rank r has share / r
        self._weights = {
            token: SMOOTHING / (SMOOTHING + share / rank) for rank, token in enumerate(tokens, 1)
        }

    def by_method(self, texts: Sequence[str], fitted: Sequence[str]) -> dict[str, np.ndarray]:
        """The vectors of `texts`, float64 (sentence, feature), by method.

        Args:
            texts: sentences.
            fitted: sentences that give means, deviations and the principal component.
        """
        own, other = self._moments(texts), self._moments(fitted)
        mean, weighted = other["mean"].mean(1), other["weighted"].mean(1)
        component = np.linalg.svd(weighted, full_matrices=False)[2][0]
        average, rare = own["mean"].mean(1), own["weighted"].mean(1)
        vectors = (
            average,
            (average - mean.mean(0)) / mean.std(0),
            rare - np.outer(rare @ component, component),
            np.concatenate([average, own["maximum"].mean(1)], 1),
            own["mean"][:, 0],
            own["mean"][:, -1],
            own["mean"][:, [0, -1]].reshape(len(average), -1),
        )
        return dict(zip(METHODS, vectors, strict=True))

    def _moments(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Mean, weighted mean and maximum over the tokens, each (sentence, layer, feature)."""
        rows: dict[str, list[np.ndarray]] = {"mean": [], "weighted": [], "maximum": []}
        tokens = [text.split() for text in texts]
        for words, layers in zip(tokens, self._embedder.embed(tokens), strict=True):
            weights = np.array([self._weights.get(word, 1.0) for word in words])
            rows["mean"].append(layers.mean(1))
            rows["weighted"].append(np.einsum("t,ltf->lf", weights, layers) / len(words))
            rows["maximum"].append(layers.max(1))
        return {name: np.array(row, np.float64) for name, row in rows.items()}


def classified(source: Sentences, train: Texts, test: Texts) -> dict[str, float]:
    """The accuracy of logistic regression on each kind of vectors."""
    from sklearn.linear_model import LogisticRegression

    texts = [[text for (text,) in part.texts] for part in (train, test)]
    fitted, held_out = (source.by_method(part, texts[0]) for part in texts)
    return {
        name: LogisticRegression(max_iter=2000)
        .fit(fitted[name], train.labels)
        .score(held_out[name], test.labels)
        for name in METHODS
    }


def entailed(source: Sentences, pairs: Texts) -> dict[str, float]:
    """The area under the ROC curve if the cosine tells entailment from contradiction."""
    from sklearn.metrics import roc_auc_score

    texts = [text for pair in pairs.texts for text in pair]
    labels = [label == "entailment" for label in pairs.labels]
    return {
        name: float(roc_auc_score(labels, cosines(vectors[::2], vectors[1::2]).diagonal()))
        for name, vectors in source.by_method(texts, texts).items()
    }


def retrieved(
    source: Sentences, queries: Sequence[str], targets: Sequence[str], answers: Sequence[int]
) -> dict[str, float]:
    """The mean reciprocal rank of the target of each query by its cosine."""
    texts = [*queries, *targets]
    rows = source.by_method(texts, texts)
    found = {}
    for name, vectors in rows.items():
        similar = cosines(vectors[: len(queries)], vectors[len(queries) :])
        of_answer = similar[np.arange(len(queries)), answers, None]
        found[name] = float((1 / (similar >= of_answer).sum(1)).mean())
    return found


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosine of each row of `a` and each row of `b`."""
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (a, b))
    return a @ b.T


def sst(data: Path) -> list[Texts]:
    """Training and development sentences with two labels."""
    settings = {**settings_of(Run("sst", "GloVe", 1.0, 0), data, Path()), "binary": True}
    return [labeled_texts(settings, settings[part]) for part in ("train", "dev")]


def nsmc(data: Path) -> tuple[Texts, Texts]:
    """The smaller number of training reviews, and those that choose in benchmarks/korean.py."""
    rows = read_reviews(data / "sentiment/nsmc/train.csv", LanguageTokenizer(TOKENIZER))
    return tuple(parts_of({"train": rows, "dev": rows}, REVIEWS[0])[:2])


def snli(data: Path) -> list[Texts]:
    """The development pairs that are entailments or contradictions."""
    settings = settings_of(Run("snli", "GloVe", 1.0, 0), data, Path())
    pairs = labeled_texts(settings, settings["dev"])
    kept = [i for i, label in enumerate(pairs.labels) if label != "neutral"]
    return [Texts([pairs.labels[i] for i in kept], [pairs.texts[i] for i in kept])]


def squad(data: Path) -> tuple[list[str], list[str], list[int]]:
    """Development questions, all passages, and the passage of each question."""
    articles = json.loads((data / "squad/dev.json").read_text("utf-8"))["data"]
    passages = [passage for article in articles for passage in article["paragraphs"]]
    asked = [(one["question"], k) for k, p in enumerate(passages) for one in p["qas"]]
    tokenizer = LanguageTokenizer("en")
    questions, targets = (
        [joined_tokens(text, tokenizer) for text in texts]
        for texts in ([text for text, _ in asked], [p["context"] for p in passages])
    )
    return questions, targets, [number for _, number in asked]


def halves_of_sentences(path: Path) -> tuple[list[str], list[str], list[int]]:
    """The first and the second halves of sentences, and their numbers."""
    lines = (line.split() for line in path.read_text("utf-8").splitlines())
    chosen = list(itertools.islice((line for line in lines if len(line) >= 12), HALVES))
    parts: list[Any] = [
        [" ".join(line[: len(line) // 2]) for line in chosen],
        [" ".join(line[len(line) // 2 :]) for line in chosen],
    ]
    return (*parts, list(range(len(chosen))))


if __name__ == "__main__":
    main()
