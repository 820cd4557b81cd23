import multiprocessing
import pickle

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from elmo_tf import Embedder
from elmo_tf.integrations.spacy import restore_vectors

pytestmark = pytest.mark.usefixtures("eager_module")

TEXT = "The cat sat.  A dog barked at it!"


@pytest.fixture(scope="module")
def pipeline(checkpoint_directory):
    """A pipeline with static vectors of two words too."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": str(checkpoint_directory)})
    for number, word in enumerate(["cat", "dog"]):
        nlp.vocab.set_vector(word, np.full(3, number + 1, np.float32))
    return nlp


def test_each_sentence_is_embedded_separately(pipeline, bilm):
    doc = pipeline(TEXT)
    words = [token.i for token in doc if not token.is_space]
    assert len(words) == len(doc) - 1  # the second space
    arrays = Embedder(bilm, layers="average").embed(["The cat sat .", "A dog barked at it !"])
    np.testing.assert_allclose(doc.tensor[words], np.concatenate(list(arrays)), atol=1e-6)
    assert not doc.tensor[4].any()
    np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])


def test_without_sentence_boundaries_a_document_is_one_sentence(checkpoint_directory, bilm):
    nlp = spacy.blank("en")
    with pytest.raises(ValueError, match=r"`layers` must be one of average, top\. Received: 'all'"):
        nlp.add_pipe("elmo", config={"layers": "all"})
    nlp.add_pipe("elmo", config={"model": str(checkpoint_directory), "layers": "top"})
    (expected,) = Embedder(bilm, layers="top").embed(["The cat sat . It left ."])
    np.testing.assert_allclose(nlp("The cat sat. It left.").tensor, expected, atol=1e-6)


def test_a_token_of_spacy_has_the_mean_over_the_tokens_of_the_model(checkpoint_directory, bilm):
    nlp = spacy.blank("xx")
    config = {"model": str(checkpoint_directory), "tokenizer": "xx"}
    nlp.add_pipe("elmo", config=config)
    doc = Doc(nlp.vocab, ["A", "cat(s)", "."])
    (tokens,) = Embedder(bilm, layers="average").embed(["A cat ( s ) ."])
    expected = [tokens[0], tokens[1:5].mean(axis=0), tokens[5]]
    np.testing.assert_allclose(nlp(doc).tensor, expected, atol=1e-6)


def test_batches_give_the_same_vectors(pipeline):
    texts = [TEXT, "", "A dog.", " ", "The cat sat on the mat."]
    docs = list(pipeline.pipe(texts, batch_size=2))
    for text, doc in zip(texts, docs, strict=True):
        assert doc.text == text
        np.testing.assert_allclose(doc.tensor, pipeline(text).tensor, atol=1e-6)
        assert doc.vector.shape == (pipeline.get_pipe("elmo").embedder.dim,)


def test_a_pipeline_is_saved_with_its_model(pipeline, tmp_path):
    pipeline.to_disk(tmp_path / "saved")
    config = (tmp_path / "saved" / "config.cfg").read_text()
    broken = config.replace(pipeline.config["components"]["elmo"]["model"], "gone")
    (tmp_path / "saved" / "config.cfg").write_text(broken)
    loaded = spacy.load(tmp_path / "saved")
    assert "[components.elmo]" in config
    assert (tmp_path / "saved" / "elmo" / "weights.hdf5").is_file()
    np.testing.assert_allclose(loaded(TEXT).tensor, pipeline(TEXT).tensor, atol=1e-6)


def test_bytes_of_a_pipeline_contain_its_model(pipeline, forward_directory):
    other = spacy.blank("en")
    other.add_pipe("sentencizer")
    component = other.add_pipe("elmo", config={"model": str(forward_directory)})
    assert component.embedder.dim < pipeline.get_pipe("elmo").embedder.dim
    other.from_bytes(pipeline.to_bytes())
    np.testing.assert_allclose(other(TEXT).tensor, pipeline(TEXT).tensor, atol=1e-6)
    with pytest.raises(ValueError, match=r"Cannot unpack .*model\.zip: File is not a zip file"):
        component.from_bytes(pipeline.get_pipe("elmo").to_bytes()[:1000])


REPEATED = "The cat sat. A dog saw the cat!"


def assert_same_vectors(doc, expected):
    """Two tokens `cat` differ by their context, and the first has a static vector."""
    for part, other in ((doc, expected), (doc[:3], expected[:3]), (doc[1], expected[1])):
        np.testing.assert_allclose(part.vector, other.vector, atol=1e-6)
    for first, second in ((doc[1], doc[8]), (doc[:3], doc[4:9]), (doc, doc[4:])):
        cosine = first.vector @ second.vector
        cosine /= np.linalg.norm(first.vector) * np.linalg.norm(second.vector)
        assert first.similarity(second) == pytest.approx(cosine)
    assert doc[1].similarity(doc[8]) < 0.9999


def test_vectors_of_serialized_documents_are_restored(pipeline):
    nlp, doc = pipeline, pipeline(REPEATED)

    with pytest.warns(UserWarning, match="W109.*Re-add any required user hooks"):
        data = doc.to_bytes()
    loaded = Doc(nlp.vocab).from_bytes(data)
    assert loaded[1].similarity(loaded[8]) == 1  # spaCy does not serialize hooks

    assert restore_vectors(loaded) is loaded
    assert_same_vectors(loaded, doc)
    assert_same_vectors(restore_vectors(Doc.from_docs([doc])), doc)
    assert_same_vectors(pickle.loads(pickle.dumps(doc)), doc)
    assert_same_vectors(doc.copy(), doc)
    empty = restore_vectors(Doc(nlp.vocab).from_bytes(nlp("").to_bytes(exclude=["user_hooks"])))
    assert empty.vector.shape == doc.vector.shape


@pytest.mark.more
def test_vectors_of_several_processes_are_restored(pipeline, monkeypatch):
    texts = [REPEATED, "", TEXT, "The cat"]
    # TensorFlow, which this process has used, does not work after a fork.
    monkeypatch.setattr(spacy.language, "mp", multiprocessing.get_context("spawn"))
    docs = list(map(restore_vectors, pipeline.pipe(texts, n_process=2, batch_size=2)))
    assert_same_vectors(docs[0], pipeline(REPEATED))
    for doc, text in zip(docs, texts, strict=True):
        np.testing.assert_allclose(doc.vector, pipeline(text).vector, atol=1e-6)
