import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from elmo_tf import BiLM, BiLMConfig, Embedder
from elmo_tf.embedding.vectors import unit_vectors
from elmo_tf.evaluation import Occurrence, OccurrenceIndex, build_occurrence_index, occurrences
from elmo_tf.evaluation.occurrences import cluster_medoids

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [
    "the bank raised its rates",
    "they sat on the bank of the river",
    "a bank lent the money",
    "caf\udce9 größe",
    "the play was good",
    "children play in the park",
    "they play cards , and play well",
    "no such word here",
    "the river rose",
]


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    # Empty lines are counted in line numbers. A repeated sentence is indexed once.
    lines = ["", *SENTENCES[:2], "the  bank raised its rates", *SENTENCES[2:]]
    path.write_text("\n".join(lines) + "\n", "utf-8", "surrogateescape")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory, embedder, text_file, checkpoint_directory):
    folder = tmp_path_factory.mktemp("indices") / "index"
    with pytest.MonkeyPatch.context() as patch:  # several blocks
        patch.setattr(occurrences, "_TOKENS_PER_BLOCK", 20)
        build_occurrence_index(embedder, [text_file], folder, model=str(checkpoint_directory))
    return folder


@pytest.fixture(scope="module")
def index(folder, embedder):
    return OccurrenceIndex(folder, embedder)


@pytest.fixture(scope="module")
def nearest(bilm):
    """Compares a token with each token of the text: the best of each sentence, nearest first."""

    def units(tokens):
        return unit_vectors(np.array(bilm([tokens])["layers"][0]))

    def nearest(tokens, position, layer, words):
        query = units(tokens)[layer, position]
        best = []
        for line in SENTENCES:
            others = line.split()
            is_same = np.array([other == tokens[position] for other in others])
            allowed = {"any": True, "same": is_same, "other": ~is_same}[words]
            cosines = np.where(allowed, units(others)[layer] @ query, -2)
            if others != tokens and cosines.max() >= -1:
                best.append((float(cosines.max()), line, int(cosines.argmax())))
        return sorted(best, reverse=True)

    return nearest


@pytest.mark.parametrize("words", ["any", "same", "other"])
@pytest.mark.parametrize("sentence", [SENTENCES[6], "we play cards"])
def test_nearest_occurrences_are_exact_by_cosine(index, nearest, sentence, words):
    query = Occurrence(sentence.split(), 1)
    [found] = index.nearest([query], top_n=4, words=words)

    assert list(found) == [1, 2]
    for layer, neighbors in found.items():
        expected = nearest(query.tokens, 1, layer, words)[:4]
        assert [(" ".join(one.tokens), one.position) for one in neighbors] == [
            (line, position) for _, line, position in expected
        ]
        similarities = [one.similarity for one in neighbors]
        np.testing.assert_allclose(similarities, [near for near, *_ in expected], atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_occurrences_have_the_file_and_line_of_their_first_appearance(folder, text_file, precision):
    index = OccurrenceIndex(folder, precision=precision)  # by the model that the index names
    [found] = index.nearest([Occurrence(["the", "bank"], 1)], [1], 3, "same")
    lines = text_file.read_text("utf-8", "surrogateescape").split("\n")

    assert sorted(one.line for one in found[1]) == [2, 3, 5]
    for one in found[1]:
        assert one.file == str(text_file)
        assert lines[one.line - 1] == " ".join(one.tokens)
    [unlike] = index.unlike_occurrences("caf\udce9")
    assert unlike[:4] == (SENTENCES[3].split(), 0, str(text_file), 6)
    index.check_same_text([], None)
    roundabout = text_file.parent / ".." / text_file.parent.name / text_file.name
    index.check_same_text([str(roundabout)], None)
    about = [index.settings[key] for key in ("sentences", "tokens", "types")]
    assert about == [9, 43, len({token for line in SENTENCES for token in line.split()})]


def test_more_candidates_are_read_if_most_are_in_one_sentence(tmp_path, embedder):
    text = tmp_path / "text.txt"
    text.write_text(" ".join(["ho"] * 30) + "\nho ho\nha\nhe ho")
    build_occurrence_index(embedder, [text], tmp_path / "index")
    index = OccurrenceIndex(tmp_path / "index", embedder)

    [found] = index.nearest([Occurrence(["ho"], 0)], layers=[1], top_n=4)

    assert sorted(len(one.tokens) for one in found[1]) == [1, 2, 2, 30]
    assert index.nearest([], layers=[1]) == []


def test_unlike_occurrences_of_a_word_are_from_different_sentences(index):
    found = index.unlike_occurrences("play", count=3)

    assert len({(*one.tokens, one.position) for one in found}) == 3
    assert all(one.tokens[one.position] == "play" for one in found)
    assert len(index.unlike_occurrences("bank", count=9)) == 3
    [one] = index.unlike_occurrences("rose", count=2, layer=1)
    assert (one.tokens, one.position) == (["the", "river", "rose"], 2)


def test_cluster_medoids_are_ordered_by_cluster_size():
    angles = np.array([1.5, 0.1, 0.2, 0.3, 1.3, 1.4, 0.22])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    assert cluster_medoids(vectors, 2) == [2, 5]
    assert len(cluster_medoids(np.ones((5, 3), np.float32), 2)) >= 1


@pytest.mark.parametrize("word", ["play", "plays"])
def test_nearest_types_use_context_free_vectors_of_the_bilm(index, bilm, word):
    types = list(dict.fromkeys(token for line in SENTENCES for token in line.split()))
    query, *vectors = unit_vectors(bilm.token_embeddings([word, *types]).numpy())
    cosines = np.stack(vectors) @ query
    expected = [row for row in np.argsort(-cosines) if types[row] != word][:3]

    found = index.nearest_types(word, top_n=3)

    assert [token for token, _ in found] == [types[row] for row in expected]
    np.testing.assert_allclose([near for _, near in found], cosines[expected], atol=1e-5)


def test_an_index_works_with_a_forward_bilm(forward_bilm, text_file, tmp_path):
    embedder = Embedder(forward_bilm)
    build_occurrence_index(embedder, [text_file], tmp_path / "index", max_tokens=12)
    index = OccurrenceIndex(tmp_path / "index", embedder)

    [found] = index.nearest([Occurrence(["the", "bank", "failed"], 1)], layers=[2], top_n=2)

    # The following tokens are not read, so both occurrences have the same vector.
    assert " ".join(found[2][0].tokens) == SENTENCES[0]
    assert found[2][0].similarity == pytest.approx(1)
    assert index.settings["sentences"] == 2


def test_an_interrupted_build_leaves_nothing(embedder, text_file, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(occurrences, "_write_vectors", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build_occurrence_index(embedder, [text_file], tmp_path / "index")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.unlike_occurrences("Plai"), r"'Plai' does not .* words: play\.$"),
        (lambda index: index.unlike_occurrences("BANK"), r"'BANK' does not .* words: bank\.$"),
        (lambda index: index.unlike_occurrences("x" * 17), r"does not occur in the text\.$"),
        (lambda index: index.unlike_occurrences("bank", layer=3), r"are 1, 2\. Received: 3"),
        (lambda index: index.nearest([], layers=[0]), r"context are 1, 2\. Received: 0"),
        (lambda index: index.nearest([Occurrence(["a"], 1)]), r"no token 1 in the .* \['a'\]"),
        (lambda index: index.nearest([Occurrence(["a"], -1)]), "no token -1 in the sentence"),
        (lambda index: index.check_same_text([], 5), "was built with max_tokens=None, not 5"),
        (lambda index: index.check_same_text([__file__], None), "was built from other files"),
    ],
)
def test_wrong_arguments_are_errors(index, call, message):
    with pytest.raises(ValueError, match=message):
        call(index)


def test_an_index_of_another_model_and_other_layers_are_refused(folder, bilm, text_file, tmp_path):
    with pytest.raises(ValueError, match="was built with another biLM, "):
        OccurrenceIndex(folder, Embedder(BiLM(BiLMConfig.preset("tiny"))))
    top = Embedder(bilm, layers="top")
    with pytest.raises(ValueError, match=r"`model` must return all layers.*Received: 'top'"):
        OccurrenceIndex(folder, top)
    with pytest.raises(ValueError, match=r"`embedder` must return all layers.*Received: 'top'"):
        build_occurrence_index(top, [text_file], tmp_path / "index")


def test_a_missing_index_and_missing_models_are_errors(folder, embedder, text_file, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no index .*nowhere"):
        OccurrenceIndex(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="There is no checkpoint gone"):
        OccurrenceIndex(folder, "gone")
    build_occurrence_index(embedder, [text_file], tmp_path / "index", max_tokens=3)
    with pytest.raises(ValueError, match=r"does not name its biLM. Name the original"):
        OccurrenceIndex(tmp_path / "index")


@pytest.mark.parametrize("name", ["contexts.parquet", "layer_2.faiss"])
def test_missing_and_damaged_files_and_other_tables_are_errors(folder, embedder, tmp_path, name):
    file = shutil.copytree(folder, tmp_path / "index") / name
    if name == "contexts.parquet":
        pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
        with pytest.raises(ValueError, match="damaged, or of another version"):
            OccurrenceIndex(tmp_path / "index", embedder)
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"index is damaged, .*Rebuild the index"):
        OccurrenceIndex(tmp_path / "index", embedder)
    file.unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=f"{name}"):
        OccurrenceIndex(tmp_path / "index", embedder)
