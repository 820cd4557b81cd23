"""ElmoVectorizer: a scikit-learn transformer from texts to vectors."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.lazy import require_extra

_base = require_extra("sklearn.base", "sklearn", "ElmoVectorizer")
_validation = require_extra("sklearn.utils.validation", "sklearn", "ElmoVectorizer")


class ElmoVectorizer(
    _base.ClassNamePrefixFeaturesOutMixin, _base.TransformerMixin, _base.BaseEstimator
):
    """Transforms texts to the mean of their contextual token vectors.

    A fitted vectorizer contains the weights, so its pickle needs no other file. `clone` copies only
    the parameters: `cross_val_score(n_jobs=2)` sends the name of the model, and each process loads
    it.

    Args:
        model: an argument of `load_bilm`, such as a name or directory. Defaults to "small-en".
        layers: see `Embedder`. "all" is the same as "concat". Defaults to "average".
        precision, batch_tokens, tokenizer: see `Embedder`.

    Attributes:
        embedder_: the `Embedder`, after `fit`.

    Raises:
        ValueError: by `fit`, an argument is not allowed.
    """

    def __init__(
        self,
        model: Any = "small-en",
        *,
        layers: str | int = "average",
        precision: str = "float32",
        batch_tokens: int = 4096,
        tokenizer: Any = None,
    ):
        self.model = model
        self.layers = layers
        self.precision = precision
        self.batch_tokens = batch_tokens
        self.tokenizer = tokenizer

    def fit(self, X: Iterable[str], y: Any = None) -> "ElmoVectorizer":
        """Loads the model. The texts are not read."""
        options = self.layers, self.precision, self.batch_tokens
        self.embedder_ = Embedder(self.model, *options, tokenizer=self.tokenizer)
        num_layers = self.embedder_.num_layers if self.layers == "all" else 1
        self._n_features_out = num_layers * self.embedder_.dim
        return self

    def transform(self, X: Iterable[str]) -> np.ndarray:
        """Returns one vector per text, float32 (text, feature); zeros for a text without tokens.

        Args:
            X: texts (`str`), or lists of tokens.

        Raises:
            sklearn.exceptions.NotFittedError: `fit` was not called.
            TypeError, ValueError: `X` is a single string or a table, see `Embedder.encode`.
        """
        _validation.check_is_fitted(self)
        if isinstance(X, str | bytes):
            raise ValueError("Iterable over raw text documents expected, string object received.")
        vectors = self.embedder_.encode(X, show_progress_bar=False)
        return vectors.reshape(len(vectors), self._n_features_out)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags
