"""BiLM ─► what each of its layers knows of tags: a linear classifier on its frozen vectors."""

import collections
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from elmo_tf.config_checks import check_int
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_cache import LayerCache
from elmo_tf.evaluation.linear_classifier import LinearClassifier
from elmo_tf.extras import require_extra
from elmo_tf.progress import progress
from elmo_tf.tasks.data.tagged_sentences import TaggedSentence

# Stands for a tag that the training data lack: no classifier answers it.
_UNSEEN = -1


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Shares of right tags: of all tokens, and of those in the training data or not (or None)."""

    all: float
    known: float | None
    unknown: float | None


@dataclasses.dataclass(frozen=True)
class LayerProbe:
    """What the classifier on one layer achieves.

    layer: its number; 0 is the tokens' own vectors, without context.
    accuracy: on the test data.
    iterations: of its fitting.
    converged: whether the fitting came to its end before the iterations did.
    seconds: that it took.
    """

    layer: int
    accuracy: Accuracy
    iterations: int
    converged: bool
    seconds: float


@dataclasses.dataclass(frozen=True)
class ProbeReport:
    """What `probe` measures.

    layers: of each layer.
    baseline: the accuracy of each token's most frequent tag.
    tags: that there are in the training data.
    train_sentences, train_tokens: on which the classifiers were fitted.
    test_sentences, test_tokens: on which they were measured.
    test_unknown: tokens of them that the training data lack.
    test_unseen_tags: tokens of them with a tag that the training data lack, which are errors.
    """

    layers: list[LayerProbe]
    baseline: Accuracy
    tags: int
    train_sentences: int
    train_tokens: int
    test_sentences: int
    test_tokens: int
    test_unknown: int
    test_unseen_tags: int

    def to_json(self) -> dict[str, Any]:
        """The same in plain numbers, strings, lists and dictionaries."""
        return dataclasses.asdict(self)


def probe(
    embedder: Embedder,
    train: Sequence[TaggedSentence],
    test: Sequence[TaggedSentence],
    cache: LayerCache | None = None,
    c: float = 0.03,
    max_iterations: int = 200,
    max_train_tokens: int = 500_000,
    seed: int = 0,
) -> ProbeReport:
    """Fits a linear classifier of tags on each layer, and measures it on other sentences.

    Multinomial logistic regression on decorrelated features, see `LinearClassifier`. A token's
    baseline is its most frequent tag in the training data, and for a token that is not there the
    most frequent of all; of tags that are as frequent, the first by name.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        train, test: tagged sentences.
        cache: where the layers are kept. None keeps none.
        c: float > 0. Inverse strength of the penalty. Defaults to 0.03.
        max_iterations: int >= 1. Of L-BFGS. Defaults to 200.
        max_train_tokens: int >= 1. Of larger training data, so much is drawn, in whole sentences.
            In memory, a layer takes `4 · dim` bytes for each token. Defaults to 500,000.
        seed: of the drawing.

    Raises:
        ValueError: no token to train or to test on, a sentence with more or fewer tags than
            tokens, training data with one tag alone, or an argument out of its range.
        MissingExtraError: scikit-learn is not installed.

    Source: Peters et al. 2018, section 5.3 (part-of-speech tagging).
    """
    require_extra("sklearn.linear_model", "analysis", "A probe")
    check_int(max_iterations, "max_iterations", least=1)
    check_int(max_train_tokens, "max_train_tokens", least=1)
    if not c > 0:
        raise ValueError(f"`c` must be above 0. Received: {c!r}")
    train = _drawn(train, max_train_tokens, seed)
    task = _Task(train, test)
    probes = []
    cache = cache or LayerCache(max_bytes=0)
    with (
        cache.layers(embedder, [sentence.tokens for sentence in train]) as train_layers,
        cache.layers(embedder, [sentence.tokens for sentence in test]) as test_layers,
        progress(train_layers.shape.num_layers, "fitting", "layers") as meter,
    ):
        # The first line of progress comes only with the first layer.
        logging.info(
            "Fitting classifiers of %s tags on %s tokens, layer by layer.",
            *(f"{len(task.tags):,}", f"{len(task.train_ids):,}"),
        )
        for number in range(train_layers.shape.num_layers):
            layers = train_layers.layer(number), test_layers.layer(number)
            probes.append(_layer_probe(number, *layers, task, c, max_iterations))
            meter.update(1)
    if late := [one.layer for one in probes if not one.converged]:
        logging.warning(
            "The classifiers on the layers %s did not converge within %s iterations: more of them "
            "(max_iterations, --max-iterations) may give another accuracy.",
            ", ".join(map(str, late)),
            max_iterations,
        )
    return ProbeReport(
        layers=probes,
        baseline=_accuracy(task.baseline == task.test_ids, task.is_known),
        tags=len(task.tags),
        train_sentences=len(train),
        train_tokens=len(task.train_ids),
        test_sentences=len(test),
        test_tokens=len(task.test_ids),
        test_unknown=int((~task.is_known).sum()),
        test_unseen_tags=int((task.test_ids == _UNSEEN).sum()),
    )


def _drawn(
    sentences: Sequence[TaggedSentence], max_tokens: int, seed: int
) -> Sequence[TaggedSentence]:
    """As many sentences as may be, one at least, drawn and in their order."""
    lengths = np.array([len(sentence.tokens) for sentence in sentences], np.int64)
    if lengths.sum() <= max_tokens:
        return sentences
    order = np.random.default_rng(seed).permutation(len(sentences))
    num_drawn = max(1, int((np.cumsum(lengths[order]) <= max_tokens).sum()))
    places = np.sort(order[:num_drawn])
    logging.warning(
        "The classifiers are fitted on %s of the %s sentences for training, drawn by the seed %s: "
        "all have %s tokens, more than %s (max_train_tokens, --max-train-tokens).",
        f"{len(places):,}",
        f"{len(sentences):,}",
        seed,
        f"{lengths.sum():,}",
        f"{max_tokens:,}",
    )
    return [sentences[place] for place in places]


class _Task:
    """Tags as numbers, and what can be told without a model.

    tags: those of the training data.
    train_ids, test_ids: int (token,). Their numbers; `_UNSEEN` for a tag that training lacks.
    is_known: bool (token,). Whether a token of the test data is in the training data.
    baseline: int (token,). The most frequent tag for each token of the test data.
    """

    def __init__(self, train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]):
        for sentences, purpose in ((train, "train"), (test, "test")):
            if not any(sentence.tokens for sentence in sentences):
                raise ValueError(f"There is no token to {purpose} on.")
            for tokens, tags in sentences:
                if len(tokens) != len(tags):
                    raise ValueError(
                        f"A sentence to {purpose} on has {len(tokens)} tokens, but {len(tags)} "
                        f"tags: {' '.join(tokens)[:80]!r}"
                    )
        counts: collections.defaultdict[str, collections.Counter[str]]
        counts = collections.defaultdict(collections.Counter)
        for sentence in train:
            for token, tag in zip(*sentence, strict=True):
                counts[token][tag] += 1
        total = sum(counts.values(), collections.Counter())
        self.tags = sorted(total)
        if len(self.tags) < 2:
            raise ValueError(
                f"All tokens to train on have the tag {self.tags[0]!r}: there is nothing to tell "
                "apart. Is it another column (tag_column, --tag-column)?"
            )
        ids = {tag: number for number, tag in enumerate(self.tags)}
        self.train_ids = np.array([ids[tag] for sentence in train for tag in sentence.tags])
        self.test_ids = np.array(
            [ids.get(tag, _UNSEEN) for sentence in test for tag in sentence.tags]
        )
        tokens = [token for sentence in test for token in sentence.tokens]
        self.is_known = np.array([token in counts for token in tokens])
        best = {token: ids[_most_frequent(found)] for token, found in counts.items()}
        commonest = ids[_most_frequent(total)]
        self.baseline = np.array([best.get(token, commonest) for token in tokens])


def _most_frequent(counts: collections.Counter[str]) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))


def _layer_probe(
    number: int,
    train_vectors: np.ndarray,
    test_vectors: np.ndarray,
    task: _Task,
    c: float,
    max_iterations: int,
) -> LayerProbe:
    """Fits the classifier on one layer's vectors, (token, feature), and measures it."""
    start = time.perf_counter()
    classifier = LinearClassifier(train_vectors, task.train_ids, c, max_iterations)
    is_right = classifier.predict(test_vectors) == task.test_ids
    return LayerProbe(
        number,
        _accuracy(is_right, task.is_known),
        classifier.iterations,
        classifier.converged,
        time.perf_counter() - start,
    )


def _accuracy(is_right: np.ndarray, is_known: np.ndarray) -> Accuracy:
    shares = [
        float(is_right[chosen].mean()) if chosen.any() else None for chosen in (is_known, ~is_known)
    ]
    return Accuracy(float(is_right.mean()), *shares)
