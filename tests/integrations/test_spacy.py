import numpy as np
import pytest
import spacy

from elmo_tf import Embedder

pytestmark = pytest.mark.usefixtures("eager_module")

TEXT = "The cat sat.  A dog barked at it!"


@pytest.fixture(scope="module")
def pipeline(checkpoint_directory):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": str(checkpoint_directory)})
    return nlp


@pytest.fixture(scope="module")
def embedder(bilm):
    return Embedder(bilm, layers="average")


def expected(embedder, *sentences):
    return np.concatenate(list(embedder.embed(sentences)))


def test_each_sentence_is_embedded_separately(pipeline, embedder):
    doc = pipeline(TEXT)

    words = [token.i for token in doc if not token.is_space]
    assert len(words) == len(doc) - 1  # the second space
    wanted = expected(embedder, "The cat sat .", "A dog barked at it !")
    np.testing.assert_allclose(doc.tensor[words], wanted, atol=1e-6)
    assert not doc.tensor[4].any()
    np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])


def test_a_document_without_sentence_boundaries_is_embedded_as_one(checkpoint_directory, embedder):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(checkpoint_directory), "layers": "top"})

    doc = nlp("The cat sat. It left.")

    wanted = expected(Embedder(embedder.bilm, layers="top"), "The cat sat . It left .")
    np.testing.assert_allclose(doc.tensor, wanted, atol=1e-6)


def test_document_and_span_vectors_are_means_and_support_similarity(pipeline):
    doc, other = pipeline(TEXT), pipeline("The cat sat.")

    np.testing.assert_allclose(doc.vector, np.delete(doc.tensor, 4, axis=0).mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(doc[:3].vector, doc.tensor[:3].mean(axis=0), atol=1e-6)
    assert doc[:4].similarity(other) == pytest.approx(1, abs=1e-5)
    assert doc[1].similarity(other[1]) == pytest.approx(1, abs=1e-5)
    assert doc.similarity(other) < 0.9999
    cosine = doc[:3].vector @ doc[5].vector / np.linalg.norm(doc[:3].vector)
    assert doc[:3].similarity(doc[5]) == pytest.approx(cosine / np.linalg.norm(doc[5].vector))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"layers": "all"}, "`layers` must be"),
        ({"precision": "float8"}, "`precision` must be"),
        ({"batch_tokens": 0}, "`batch_tokens` must be"),
    ],
)
def test_invalid_options_are_refused_when_the_component_is_added(option, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe("elmo", config=option)


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


def test_pipeline_analysis_reports_the_assigned_doc_tensor(pipeline):
    assert "doc.tensor" in pipeline.analyze_pipes()["summary"]["elmo"]["assigns"]
