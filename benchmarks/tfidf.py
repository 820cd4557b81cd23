"""A control without pretrained vectors: TF-IDF with logistic regression."""

from collections.abc import Sequence
from typing import NamedTuple

STRENGTHS = (0.25, 1.0, 4.0, 16.0)


class Texts(NamedTuple):
    """Labeled examples of one or several texts each; tokens are separated by spaces."""

    labels: Sequence[str]
    texts: Sequence[Sequence[str]]


def tfidf_accuracy(train: Texts, choose: Texts, report: Texts, analyzers: Sequence[str]) -> float:
    """The accuracy of logistic regression on the TF-IDF vectors of all texts of an example.

    Args:
        train: examples to fit.
        choose: examples that choose the strength of the regularization, of `STRENGTHS`.
        report: examples that are scored.
        analyzers: "characters" (n-grams of 1 to 4), "tokens" (n-grams of 1 and 2), or both.
    """
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    options = {
        "characters": {"analyzer": "char", "ngram_range": (1, 4)},
        "tokens": {"token_pattern": r"\S+", "ngram_range": (1, 2)},
    }
    vectorizers = [
        (place, TfidfVectorizer(sublinear_tf=True, min_df=2, **options[name]))
        for place in range(len(train.texts[0]))
        for name in analyzers
    ]
    for place, one in vectorizers:
        one.fit([texts[place] for texts in train.texts])

    def features(part: Texts) -> sparse.csr_matrix:
        columns = [
            one.transform([texts[place] for texts in part.texts]) for place, one in vectorizers
        ]
        return sparse.hstack(columns, "csr")

    matrix = features(train)
    models = [LogisticRegression(C=c, max_iter=1000).fit(matrix, train.labels) for c in STRENGTHS]
    best = max(models, key=lambda model: model.score(features(choose), choose.labels))
    return float(best.score(features(report), report.labels))
