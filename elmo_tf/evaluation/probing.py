"""Probing: linear classifiers of tags on the frozen vectors of each layer."""

import dataclasses
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from elmo_tf.config_checks import check_int
from elmo_tf.cores import num_cores
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.stored_layers import StoredLayers
from elmo_tf.evaluation.whitening import Whitening
from elmo_tf.extras import require_extra
from elmo_tf.progress import progress
from elmo_tf.tasks.tagging.reader import TaggedSentence

# Id of a test tag that is not in the training data; no classifier predicts it.
_UNSEEN = -1
_ROWS_PER_CHUNK = 8192
_MAX_TRAIN_TOKENS = 500_000


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Accuracy on all tokens, and on those in and not in the training data (None if none)."""

    all: float
    known: float | None
    unknown: float | None


@dataclasses.dataclass(frozen=True)
class LayerProbe:
    """The result of the classifier on one layer; layer 0 is without context."""

    layer: int
    accuracy: Accuracy  # on the test data
    iterations: int  # of L-BFGS
    converged: bool  # within the maximum number of iterations
    seconds: float  # duration of the fit and the test


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
    c: float = 0.03,
    max_iterations: int = 200,
    max_train_tokens: int = _MAX_TRAIN_TOKENS,
    seed: int = 0,
) -> ProbeReport:
    """Trains a linear classifier of tags on each layer, and tests it on other sentences.

    Multinomial logistic regression on whitened features, see `LinearClassifier`. The baseline is a
    token's most frequent tag in the training data, and for an unknown token the most frequent tag
    of all; ties are resolved alphabetically.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        train, test: tagged sentences.
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
    train = sampled(train, max_train_tokens, seed)
    counts = check_tags(train, test)
    totals = sum(counts.values(), Counter())
    ids = {tag: id for id, tag in enumerate(sorted(totals))}
    train_ids = np.array([ids[tag] for sentence in train for tag in sentence.tags])
    test_ids = np.array([ids.get(tag, _UNSEEN) for sentence in test for tag in sentence.tags])
    tokens = [token for sentence in test for token in sentence.tokens]
    is_known = np.array([token in counts for token in tokens])
    tags = [counts.get(token, totals) for token in tokens]
    baseline = np.array([ids[max(sorted(each), key=each.__getitem__)] for each in tags])
    train_layers, test_layers = (
        StoredLayers(embedder, [sentence.tokens for sentence in part]) for part in (train, test)
    )
    probes = []
    with progress(train_layers.shape[0], "fitting", "layers") as meter:
        for layer in range(train_layers.shape[0]):
            start = time.perf_counter()
            classifier = LinearClassifier(train_layers.layer(layer), train_ids, c, max_iterations)
            is_correct = classifier.predict(test_layers.layer(layer)) == test_ids
            accuracy = _accuracy(is_correct, is_known)
            how = classifier.iterations, classifier.converged, time.perf_counter() - start
            probes.append(LayerProbe(layer, accuracy, *how))
            meter.update(1)
    if unconverged := [str(one.layer) for one in probes if not one.converged]:
        logging.warning(
            "The classifiers on the layers %s did not converge within %s iterations. More "
            "(max_iterations, --max-iterations) may change the accuracy.",
            *(", ".join(unconverged), max_iterations),
        )
    return ProbeReport(
        layers=probes,
        baseline=_accuracy(baseline == test_ids, is_known),
        tags=len(ids),
        train_sentences=len(train),
        train_tokens=len(train_ids),
        test_sentences=len(test),
        test_tokens=len(test_ids),
        test_unknown=int((~is_known).sum()),
        test_unseen_tags=int((test_ids == _UNSEEN).sum()),
    )


def sampled(
    sentences: Sequence[TaggedSentence], max_tokens: int = _MAX_TRAIN_TOKENS, seed: int = 0
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
        *(f"{count:,}" for count in (lengths.sum(), max_tokens, num_sampled, len(sentences))),
        seed,
    )
    return [sentences[place] for place in np.sort(order[:num_sampled])]


def check_tags(
    train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]
) -> dict[str, Counter[str]]:
    """Raises the errors of `probe` in the data; returns the counts of each token's tags in `train`.

    Raises:
        ValueError: see `probe`.
    """
    counts = _tag_counts(train, "training")
    tags = set().union(*counts.values())
    if len(tags) < 2:
        raise ValueError(
            f"All training tokens have the tag {tags.pop()!r}; at least two tags are needed. Are "
            "the tags in another column (tag_column, --tag-column)?"
        )
    _tag_counts(test, "test")
    return counts


def _tag_counts(sentences: Sequence[TaggedSentence], data: str) -> dict[str, Counter[str]]:
    """Checks sentences, and counts the tags of each token."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for tokens, tags in sentences:
        if len(tokens) != len(tags):
            raise ValueError(
                f"A sentence of the {data} data has {len(tokens)} tokens but {len(tags)} tags: "
                f"{' '.join(tokens)[:80]!r}"
            )
        for token, tag in zip(tokens, tags, strict=True):
            counts[token][tag] += 1
    if not counts:
        raise ValueError(f"There is no token in the {data} data.")
    return dict(counts)


def _accuracy(is_correct: np.ndarray, is_known: np.ndarray) -> Accuracy:
    parts = is_correct, is_correct[is_known], is_correct[~is_known]
    return Accuracy(*(float(part.mean()) if part.size else None for part in parts))


class LinearClassifier:
    """Multinomial logistic regression on whitened features.

    `sum_i -log softmax(W z_i + b)[y_i] + |W|² / (2 c)`, minimized by L-BFGS, where `z_i = A (x_i -
    mean)` has the identity as its covariance on the training data. So the penalty treats all
    directions equally, and L-BFGS needs far fewer iterations than on features that are only
    standardized.

    Args:
        vectors: float (example, feature), to fit on; may be memory-mapped. The whitened copy takes
            4 bytes of memory per number.
        classes: int (example,), with at least two different values.
        c: float > 0. Inverse strength of the penalty.
        max_iterations: int >= 1. Maximum number of L-BFGS iterations.

    Attributes:
        iterations: the number of iterations.
        converged: whether the fit converged before `max_iterations`.
    """

    def __init__(self, vectors: np.ndarray, classes: np.ndarray, c: float, max_iterations: int):
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        # A matrix with one column per class gains little from a second thread; on a few busy cores,
        # threads that wait for each other are many times slower.
        with threadpool_limits(1 if num_cores() <= 2 else None), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._whiten = Whitening(vectors.shape[1])
            for chunk in _chunks(vectors):
                self._whiten.add(chunk)
            self._whiten.fit()
            features = np.empty((len(vectors), self._whiten.matrix.shape[1]), np.float32)
            for chunk, whitened in zip(_chunks(vectors), _chunks(features), strict=True):
                whitened[:] = self._whiten(chunk)
            self._model = LogisticRegression(C=c, max_iter=max_iterations).fit(features, classes)
        self.iterations = int(self._model.n_iter_.max())
        self.converged = self.iterations < max_iterations

    def predict(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the most probable class of each vector, (example, feature) → int (example,)."""
        chunks = [self._model.predict(self._whiten(chunk)) for chunk in _chunks(vectors)]
        return np.concatenate(chunks)


def _chunks(vectors: np.ndarray) -> Iterator[np.ndarray]:
    starts = range(0, len(vectors), _ROWS_PER_CHUNK)
    return (vectors[start : start + _ROWS_PER_CHUNK] for start in starts)
