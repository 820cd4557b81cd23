import pickle

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from elmo_tf import Embedder
from elmo_tf.integrations.sklearn import ElmoVectorizer

pytestmark = pytest.mark.usefixtures("eager_module")

TEXTS = ["the cat sat", "a dog barked at the cat", "", "dogs"]

# scikit-learn's checks that apply to a transformer of texts; older versions lack some of them.
CHECKS = [
    *("estimator_cloneable", "estimator_tags_renamed", "valid_tag_types", "estimator_repr"),
    *("no_attributes_set_in_init", "parameters_default_constructible", "get_params_invariance"),
    *("set_params", "mixin_order", "do_not_raise_errors_in_init_or_set_params"),
]


@pytest.fixture(scope="module")
def vectorizer(checkpoint_directory):
    return ElmoVectorizer(str(checkpoint_directory))


@pytest.fixture(scope="module")
def fitted(vectorizer, eager_module):
    return clone(vectorizer).fit(TEXTS)


def test_vectors_are_means_over_tokens_and_all_layers_are_concatenated(fitted, vectorizer, bilm):
    expected = Embedder(bilm, layers="average").encode(TEXTS)
    np.testing.assert_allclose(fitted.transform(TEXTS), expected, atol=1e-6)
    vectors = clone(vectorizer).set_params(layers="all").fit_transform(TEXTS)
    expected = Embedder(bilm, "all").encode(TEXTS)  # (text, layer, feature)
    np.testing.assert_allclose(vectors, expected.reshape(len(TEXTS), -1), atol=1e-6)


@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_scikit_learn_pass(name, vectorizer):
    if check := getattr(estimator_checks, f"check_{name}", None):
        check("ElmoVectorizer", clone(vectorizer))


def test_features_have_names_and_data_frame_output_is_supported(vectorizer, bilm):
    frame = clone(vectorizer).set_output(transform="pandas").fit_transform(TEXTS)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns[:2]) == ["elmovectorizer0", "elmovectorizer1"]
    assert frame.shape == (len(TEXTS), bilm.config.output_dim)


def test_a_pickle_contains_the_weights_and_a_clone_does_not(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.transform(TEXTS), fitted.transform(TEXTS))
    with pytest.raises(NotFittedError):
        clone(fitted).transform(TEXTS)


@pytest.mark.more
def test_a_pipeline_is_cross_validated_in_two_processes(vectorizer):
    texts = [f"{word} {number}" for number in range(12) for word in ("cat", "dog")]
    labels = [text.startswith("cat") for text in texts]
    pipeline = make_pipeline(clone(vectorizer), LogisticRegression())
    scores = cross_val_score(pipeline, texts, labels, cv=2, n_jobs=2)
    assert min(scores) > 0.8


def test_tables_single_texts_and_invalid_layers_are_refused(fitted):
    frame = pandas.DataFrame({"text": TEXTS})

    assert fitted.transform(frame["text"]).shape[0] == len(TEXTS)
    assert fitted.transform(frame).shape[0] == len(TEXTS)
    with pytest.raises(TypeError, match=r"not a table.*columns \['text', 'label'\]"):
        fitted.transform(frame.assign(label=1))
    with pytest.raises(ValueError, match="string object received"):
        fitted.transform("the cat")
    with pytest.raises(ValueError, match="`layers` must be one of all, "):
        clone(fitted).set_params(layers="first").fit(TEXTS)
