"""Probing: linear classifiers of tags on the frozen vectors of each layer."""

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.stored_layers import StoredLayers
from elmo_tf.lazy import require_extra
from elmo_tf.logs import progress
from elmo_tf.processors import num_cores
from elmo_tf.tasks.tagging import TaggedSentence

# Id of a test tag that is not in the training data; no classifier predicts it.
_UNSEEN = -1
_ROWS_PER_CHUNK = 8192
# Relative to the largest variance and to the mean of a feature. Below it are only rounding errors.
_MIN_VARIANCE = _MIN_DEVIATION = 1e-6


def probe(
    embedder: Embedder,
    train: Sequence[TaggedSentence],
    test: Sequence[TaggedSentence],
    c: float = 0.03,
    max_iterations: int = 200,
    max_train_tokens: int = 500_000,
) -> dict[str, Any]:
    """Trains a linear classifier of tags on each layer, and tests it on other sentences.

    Multinomial logistic regression on whitened features, see `classify`. The baseline is a
    token's most frequent tag in the training data, and for an unknown token the most frequent tag
    of all; ties are resolved alphabetically.

    Args:
        embedder: an `Embedder` with `layers="all"`, a `WordMeans` of it, or a `VectorSource`.
        train, test: tagged sentences.
        c: float > 0. Inverse strength of the penalty. Defaults to 0.03.
        max_iterations: int >= 1. Maximum number of L-BFGS iterations. Defaults to 200.
        max_train_tokens: int >= 1. Larger training data are reduced to this size by sampling
            sentences. A layer takes `4 · dim` bytes of memory per token. Defaults to 500,000.

    Returns:
        A dict: "layers", for each layer its number, "accuracy", "iterations" (of L-BFGS),
        "converged" and "seconds" (of the fit and the test); "baseline", the accuracy of the
        baseline; "tags", the number of tags in the training data; "train_sentences",
        "train_tokens", "test_sentences" and "test_tokens"; "test_unknown", the number of test
        tokens that are not in the training data; and "test_unseen_tags", the number of test tokens
        whose tag is not in the training data, which count as errors. An accuracy is a dict: that
        of "all" tokens, and of those in and not in the training data, "known" and "unknown" (None
        if there are none).

    Raises:
        ValueError: the training or test data have no token, or another number of tags than of
            tokens in a sentence; the training data have only one tag; or an argument is out of
            range.
        ImportError: scikit-learn is not installed.

    Source: Peters et al. 2018, section 5.3 (part-of-speech tagging).
    """
    require_extra("sklearn.linear_model", "analysis", "A probe")
    if min(max_iterations, max_train_tokens) < 1 or not c > 0:
        raise ValueError(
            "`max_iterations` and `max_train_tokens` must be at least 1, and `c` above 0. "
            f"Received: {max_iterations!r}, {max_train_tokens!r} and {c!r}"
        )
    for data, sentences in (("training", train), ("test", test)):
        if not any(sentence.tokens for sentence in sentences):
            raise ValueError(f"There is no token in the {data} data.")
    train = sampled(train, max_train_tokens)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for token, tag in zip(*sentence, strict=True):
            counts[token][tag] += 1
    totals = sum(counts.values(), Counter())
    if len(totals) < 2:
        raise ValueError(
            f"All training tokens have the tag {next(iter(totals))!r}; at least two tags are "
            "needed. Are the tags in another column (tag_column, --tag-column)?"
        )
    ids = {tag: id for id, tag in enumerate(sorted(totals))}
    train_ids = np.array([ids[tag] for sentence in train for tag in sentence.tags])
    pairs = [pair for sentence in test for pair in zip(*sentence, strict=True)]
    tokens = [token for token, _ in pairs]
    test_ids = np.array([ids.get(tag, _UNSEEN) for _, tag in pairs])
    is_known = np.array([token in counts for token in tokens])
    tags = [counts.get(token, totals) for token in tokens]
    baseline = np.array([ids[max(sorted(each), key=each.__getitem__)] for each in tags])
    train_layers, test_layers = (
        StoredLayers(embedder, [sentence.tokens for sentence in part]) for part in (train, test)
    )
    probes = []
    with progress(embedder.num_layers, "fitting", "layers") as meter:
        for layer in range(embedder.num_layers):
            start = time.perf_counter()
            vectors = train_layers.layers[layer], train_ids, test_layers.layers[layer]
            predicted, iterations = classify(*vectors, c, max_iterations)
            probes.append(
                {
                    "layer": layer,
                    "accuracy": _accuracy(predicted == test_ids, is_known),
                    "iterations": iterations,
                    "converged": iterations < max_iterations,
                    "seconds": time.perf_counter() - start,
                }
            )
            meter.update(1)
    if unconverged := [str(one["layer"]) for one in probes if not one["converged"]]:
        logging.warning(
            "The classifiers on the layers %s did not converge within %s iterations. More "
            "(max_iterations, --max-iterations) may change the accuracy.",
            *(", ".join(unconverged), max_iterations),
        )
    return {
        "layers": probes,
        "baseline": _accuracy(baseline == test_ids, is_known),
        "tags": len(ids),
        "train_sentences": len(train),
        "train_tokens": len(train_ids),
        "test_sentences": len(test),
        "test_tokens": len(test_ids),
        "test_unknown": int((~is_known).sum()),
        "test_unseen_tags": int((test_ids == _UNSEEN).sum()),
    }


def sampled(sentences: Sequence[TaggedSentence], max_tokens: int) -> Sequence[TaggedSentence]:
    """Samples at least one sentence and at most `max_tokens` tokens, in the original order."""
    lengths = np.array([len(sentence.tokens) for sentence in sentences], np.int64)
    if lengths.sum() <= max_tokens:
        return sentences
    order = np.random.default_rng(0).permutation(len(sentences))
    num_sampled = max(1, int((np.cumsum(lengths[order]) <= max_tokens).sum()))
    logging.warning(
        "The training data have %s tokens, more than %s (max_train_tokens, --max-train-tokens): "
        "the classifiers are trained on a sample of %s of the %s sentences.",
        *(f"{count:,}" for count in (lengths.sum(), max_tokens, num_sampled, len(sentences))),
    )
    return [sentences[place] for place in np.sort(order[:num_sampled])]


def _accuracy(is_correct: np.ndarray, is_known: np.ndarray) -> dict[str, float | None]:
    known, unknown = is_correct[is_known], is_correct[~is_known]
    parts = {"all": is_correct, "known": known, "unknown": unknown}
    return {name: float(part.mean()) if part.size else None for name, part in parts.items()}


def classify(
    train: np.ndarray, classes: np.ndarray, test: np.ndarray, c: float, max_iterations: int
) -> tuple[np.ndarray, int]:
    """Classifies vectors by multinomial logistic regression on whitened features.

    `sum_i -log softmax(W z_i + b)[y_i] + |W|² / (2 c)`, minimized by L-BFGS, where `z_i = A (x_i -
    mean)` has the identity as its covariance on the training data. So the penalty treats all
    directions equally, and L-BFGS needs far fewer iterations than on features that are only
    standardized.

    Args:
        train, test: float (example, feature); may be memory-mapped. The whitened copy of `train`
            takes 4 bytes of memory per number.
        classes: int (example,), those of `train`, with at least two different values.
        c, max_iterations: see `probe`.

    Returns:
        The most probable class of each vector of `test`, and the number of iterations.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # A matrix with one column per class gains little from a second thread; on a few busy cores,
    # threads that wait for each other are many times slower.
    with threadpool_limits(1 if num_cores() <= 2 else None), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mean, matrix = whitening(train)
        features = np.empty((len(train), matrix.shape[1]), np.float32)
        for chunk, whitened in zip(_chunks(train), _chunks(features), strict=True):
            whitened[:] = (chunk - mean) @ matrix
        model = LogisticRegression(C=c, max_iter=max_iterations).fit(features, classes)
    predicted = [model.predict((chunk - mean) @ matrix) for chunk in _chunks(test)]
    return np.concatenate(predicted), int(model.n_iter_.max())


def whitening(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes `z = A (x - mean)`, whose covariance on some vectors is the identity.

    Features are standardized before their correlations are decomposed; otherwise small features
    next to a large one would count as directions without variance, which are left out.

    Args:
        vectors: float (example, feature), at least one.

    Returns:
        The mean, float32 (feature,), and the transpose of A, float32 (feature, direction).
    """
    count, dim = vectors.shape
    mean = sum(chunk.sum(axis=0, dtype=np.float64) for chunk in _chunks(vectors)) / count
    mean32 = mean.astype(np.float32)
    covariance = np.zeros((dim, dim))
    for chunk in _chunks(vectors):
        centered = chunk - mean32
        covariance += centered.T @ centered / count
    deviations = np.sqrt(np.diag(covariance))
    varies = deviations > _MIN_DEVIATION * np.abs(mean)
    scale = np.where(varies, 1 / np.where(varies, deviations, 1), 0)[:, np.newaxis]
    variances, directions = np.linalg.eigh(covariance * scale * scale.T)  # ascending
    is_kept = variances > _MIN_VARIANCE * variances[-1]
    is_kept[-1] = True  # even if all vectors are equal
    lengths = np.sqrt(np.where(variances > 0, variances, 1)[is_kept])
    return mean32, (scale * directions[:, is_kept] / lengths).astype(np.float32)


def _chunks(vectors: np.ndarray) -> Iterator[np.ndarray]:
    starts = range(0, len(vectors), _ROWS_PER_CHUNK)
    return (vectors[start : start + _ROWS_PER_CHUNK] for start in starts)
