"""Probing: linear classifiers of tags on the frozen vectors of each layer."""

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

# Id of a test tag that is not in the training data; no classifier predicts it.
_UNSEEN = -1


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Accuracy on all tokens, and on those in and not in the training data (None if none)."""

    all: float
    known: float | None
    unknown: float | None


@dataclasses.dataclass(frozen=True)
class LayerProbe:
    """The result of the classifier on one layer.

    Attributes:
        layer: its number; layer 0 is without context.
        accuracy: on the test data.
        iterations: number of L-BFGS iterations.
        converged: whether the fit converged within the maximum number of iterations.
        seconds: duration of the fit and the test.
    """

    layer: int
    accuracy: Accuracy
    iterations: int
    converged: bool
    seconds: float


@dataclasses.dataclass(frozen=True)
class ProbeReport:
    """The result of `probe`.

    Attributes:
        layers: one result per layer.
        baseline: accuracy of each token's most frequent tag.
        tags: number of tags in the training data.
        train_sentences, train_tokens: size of the training data.
        test_sentences, test_tokens: size of the test data.
        test_unknown: number of test tokens that are not in the training data.
        test_unseen_tags: number of test tokens whose tag is not in the training data; they count as
            errors.
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
        """Returns a JSON-serializable dictionary."""
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
    """Trains a linear classifier of tags on each layer, and tests it on other sentences.

    Multinomial logistic regression on whitened features, see `LinearClassifier`. The baseline is a
    token's most frequent tag in the training data, and for an unknown token the most frequent tag
    of all; ties are resolved alphabetically.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        train, test: tagged sentences.
        cache: a cache for the layers. None disables caching.
        c: float > 0. Inverse strength of the penalty. Defaults to 0.03.
        max_iterations: int >= 1. Maximum number of L-BFGS iterations. Defaults to 200.
        max_train_tokens: int >= 1. Larger training data are reduced to this size by sampling
            sentences. A layer takes `4 · dim` bytes of memory per token. Defaults to 500,000.
        seed: of the sampling.

    Raises:
        ValueError: the training or test data have no token, a sentence has more or fewer tags than
            tokens, the training data have only one tag, or an argument is out of range.
        MissingExtraError: scikit-learn is not installed.

    Source: Peters et al. 2018, section 5.3 (part-of-speech tagging).
    """
    require_extra("sklearn.linear_model", "analysis", "A probe")
    check_int(max_iterations, "max_iterations", ge=1)
    check_int(max_train_tokens, "max_train_tokens", ge=1)
    if not c > 0:
        raise ValueError(f"`c` must be above 0. Received: {c!r}")
    train = _sampled(train, max_train_tokens, seed)
    task = _Task(train, test)
    probes = []
    cache = cache or LayerCache(max_bytes=0)
    with (
        cache.layers(embedder, [sentence.tokens for sentence in train]) as train_layers,
        cache.layers(embedder, [sentence.tokens for sentence in test]) as test_layers,
        progress(train_layers.shape.num_layers, "fitting", "layers") as meter,
    ):
        logging.info(
            "Training classifiers of %s tags on %s tokens, one per layer.",
            *(f"{len(task.tags):,}", f"{len(task.train_ids):,}"),
        )
        for number in range(train_layers.shape.num_layers):
            layers = train_layers.layer(number), test_layers.layer(number)
            probes.append(_layer_probe(number, *layers, task, c, max_iterations))
            meter.update(1)
    if unconverged := [str(one.layer) for one in probes if not one.converged]:
        logging.warning(
            "The classifiers on the layers %s did not converge within %s iterations. More "
            "(max_iterations, --max-iterations) may change the accuracy.",
            *(", ".join(unconverged), max_iterations),
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


def _sampled(
    sentences: Sequence[TaggedSentence], max_tokens: int, seed: int
) -> Sequence[TaggedSentence]:
    """Samples at least one sentence and at most `max_tokens` tokens, in the original order."""
    lengths = np.array([len(sentence.tokens) for sentence in sentences], np.int64)
    if lengths.sum() <= max_tokens:
        return sentences
    order = np.random.default_rng(seed).permutation(len(sentences))
    num_sampled = max(1, int((np.cumsum(lengths[order]) <= max_tokens).sum()))
    logging.warning(
        "The training data have %s tokens, more than %s (max_train_tokens, --max-train-tokens): "
        "the classifiers are trained on %s of the %s sentences, sampled with seed %s.",
        *(f"{number:,}" for number in (lengths.sum(), max_tokens, num_sampled, len(sentences))),
        seed,
    )
    return [sentences[place] for place in np.sort(order[:num_sampled])]


class _Task:
    """Ids of the tags, and the baseline.

    Attributes:
        tags: the tags of the training data.
        train_ids, test_ids: int (token,). Tag ids; `_UNSEEN` for a tag without training data.
        is_known: bool (token,). Whether a test token is in the training data.
        baseline: int (token,). Predictions of the baseline on the test data.
    """

    def __init__(self, train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]):
        for sentences, data in ((train, "training"), (test, "test")):
            if not any(sentence.tokens for sentence in sentences):
                raise ValueError(f"There is no token in the {data} data.")
            for tokens, tags in sentences:
                if len(tokens) != len(tags):
                    raise ValueError(
                        f"A sentence of the {data} data has {len(tokens)} tokens but {len(tags)} "
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
                f"All training tokens have the tag {self.tags[0]!r}; at least two tags are "
                "needed. Are the tags in another column (tag_column, --tag-column)?"
            )
        ids = {tag: number for number, tag in enumerate(self.tags)}
        self.train_ids = np.array([ids[tag] for sentence in train for tag in sentence.tags])
        self.test_ids = np.array(
            [ids.get(tag, _UNSEEN) for sentence in test for tag in sentence.tags]
        )
        tokens = [token for sentence in test for token in sentence.tokens]
        self.is_known = np.array([token in counts for token in tokens])
        best = {token: ids[_most_frequent(tags)] for token, tags in counts.items()}
        default = ids[_most_frequent(total)]
        self.baseline = np.array([best.get(token, default) for token in tokens])


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
    """Trains and tests the classifier on one layer's vectors, (token, feature)."""
    start = time.perf_counter()
    classifier = LinearClassifier(train_vectors, task.train_ids, c, max_iterations)
    is_correct = classifier.predict(test_vectors) == task.test_ids
    return LayerProbe(
        number,
        _accuracy(is_correct, task.is_known),
        classifier.iterations,
        classifier.converged,
        time.perf_counter() - start,
    )


def _accuracy(is_correct: np.ndarray, is_known: np.ndarray) -> Accuracy:
    shares = [
        float(is_correct[tokens].mean()) if tokens.any() else None
        for tokens in (is_known, ~is_known)
    ]
    return Accuracy(float(is_correct.mean()), *shares)
