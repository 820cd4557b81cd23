import json
import shutil

import numpy as np
import pytest

from elmo_tf import BiLM, BiLMConfig, Embedder
from elmo_tf.evaluation import Occurrence, OccurrenceIndex, build_occurrence_index
from elmo_tf.evaluation.occurrence_index import ranking
from elmo_tf.evaluation.occurrence_index.description import check_same_text, read_description
from elmo_tf.evaluation.occurrence_index.layer_index import cluster_medoids

pytestmark = pytest.mark.usefixtures("eager_module")


@pytest.fixture(scope="module")
def cosines(bilm, lines):
    """The cosines of an occurrence and all tokens of the text, by (sentence, position)."""
    vectors = [np.array(bilm([line])["layers"][0]) for line in lines]

    def cosines(tokens, position, layer):
        query = np.array(bilm([tokens])["layers"][0, layer, position])
        return {
            (number, place): vector @ query / np.linalg.norm(vector) / np.linalg.norm(query)
            for number, layers in enumerate(vectors)
            for place, vector in enumerate(layers[layer])
        }

    return cosines


@pytest.mark.parametrize("words", ["any", "same", "other"])
@pytest.mark.parametrize(
    ("sentence", "position"), [("they play cards , and play well", 1), ("we play cards", 1)]
)
def test_nearest_occurrences_are_exact_by_cosine(index, cosines, sentence, position, words, lines):
    tokens = sentence.split()
    [found] = index.nearest([Occurrence(tokens, position)], top_n=4, words=words)

    assert list(found) == [1, 2]
    for layer, neighbors in found.items():
        best = {}
        for (number, place), cosine in cosines(tokens, position, layer).items():
            is_same = lines[number].split()[place] == tokens[position]
            allowed = {"any": True, "same": is_same, "other": not is_same}[words]
            if allowed and lines[number] != sentence:
                best[number] = max(best.get(number, (-1, 0)), (cosine, place))
        expected = sorted(((c, n, p) for n, (c, p) in best.items()), reverse=True)[:4]
        assert [(one.sentence, one.position) for one in neighbors] == [
            (number, place) for _, number, place in expected
        ]
        similarities = [one.similarity for one in neighbors]
        np.testing.assert_allclose(similarities, [c for c, _, _ in expected], atol=1e-5)


def test_results_keep_the_order_of_occurrences_and_layers(index, lines):
    occurrences = [Occurrence(line.split(), 1) for line in lines[:3]]

    together = index.nearest(occurrences, layers=[2, 1], top_n=2)

    for occurrence, found in zip(occurrences, together, strict=True):
        assert list(found) == [2, 1]
        [alone] = index.nearest([occurrence], top_n=2)
        for layer, neighbors in found.items():
            assert [one[:2] for one in neighbors] == [one[:2] for one in alone[layer]]


def test_more_candidates_are_read_if_most_are_in_one_sentence(tmp_path, embedder, monkeypatch):
    monkeypatch.setattr(ranking, "_MIN_CANDIDATES", 2)
    text = tmp_path / "text.txt"
    text.write_text("ho ho ho ho ho ho ho ho\nho ho\nha\nhe ho")
    build_occurrence_index(embedder, [text], tmp_path / "index")
    index = OccurrenceIndex(tmp_path / "index", embedder)

    [found] = index.nearest([Occurrence(["ho"], 0)], layers=[1], top_n=4)

    assert sorted(one.sentence for one in found[1]) == [0, 1, 2, 3]
    assert index.nearest([], layers=[1]) == []


def test_unlike_occurrences_of_a_word_are_from_different_sentences(index, lines):
    found = index.unlike_occurrences("play", count=3)

    assert len({(*one.tokens, one.position) for one in found}) == 3
    assert all(one.tokens[one.position] == "play" for one in found)
    assert all(lines[4:7].count(" ".join(one.tokens)) for one in found)
    assert len(index.unlike_occurrences("bank", count=9)) == 3
    [one] = index.unlike_occurrences("rose", count=2, layer=1)
    assert (one.tokens, one.position) == (["the", "river", "rose"], 2)


def test_cluster_medoids_are_ordered_by_cluster_size():
    angles = np.array([1.5, 0.1, 0.2, 0.3, 1.3, 1.4, 0.22])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    assert cluster_medoids(vectors, 2) == [2, 5]
    assert len(cluster_medoids(np.ones((5, 3), np.float32), 2)) >= 1


def test_nearest_types_use_context_free_vectors_of_the_bilm(index, bilm, lines):
    types = list(dict.fromkeys(token for line in lines for token in line.split()))
    for word in ("play", "plays"):
        query = bilm.token_embeddings(word).numpy()
        vectors = bilm.token_embeddings(types).numpy()
        cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)

        found = index.nearest_types(word, top_n=3)

        expected = [types[row] for row in np.argsort(-cosines) if types[row] != word][:3]
        assert [token for token, _ in found] == expected
        np.testing.assert_allclose(
            [near for _, near in found],
            [cosines[types.index(token)] for token in expected],
            atol=2e-3,
        )


def test_a_moved_index_works_with_a_given_embedder(folder, index, embedder, tmp_path):
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    occurrence = Occurrence(["the", "bank"], 1)

    (found,) = OccurrenceIndex(moved, embedder).nearest([occurrence])

    (expected,) = index.nearest([occurrence])
    assert list(found) == list(expected)
    for layer, neighbors in found.items():
        # Rounding depends on the tokens that were encoded together.
        np.testing.assert_allclose(neighbors, expected[layer], atol=1e-5)


def test_error_for_an_unknown_word_lists_similar_words(index):
    with pytest.raises(ValueError, match=r"'Plai' does not occur .*Similar words: play"):
        index.unlike_occurrences("Plai")
    with pytest.raises(ValueError, match=r"'BANK' does not occur .*Similar words: bank\."):
        index.unlike_occurrences("BANK")
    with pytest.raises(ValueError, match=r"'xxxxxxxxxxxxxxxxx' does not occur in the text\.$"):
        index.unlike_occurrences("xxxxxxxxxxxxxxxxx")


@pytest.mark.parametrize("layer", [0, 3])
def test_layer_0_and_layers_out_of_range_are_refused(index, layer):
    message = rf"layers that depend on the context are 1, 2\. Received: {layer}"
    with pytest.raises(ValueError, match=message):
        index.nearest([Occurrence(["bank"], 0)], layers=[layer])
    with pytest.raises(ValueError, match=message):
        index.unlike_occurrences("bank", layer=layer)


@pytest.mark.parametrize("position", [-1, 2])
def test_positions_outside_the_sentence_are_refused(index, position):
    with pytest.raises(ValueError, match=rf"There is no token {position} in the sentence \['a'"):
        index.nearest([Occurrence(["a", "bank"], position)])


def test_an_index_can_be_queried_in_another_precision(folder, index):
    occurrence = Occurrence(["the", "bank"], 1)

    [other] = OccurrenceIndex(folder, precision="bfloat16").nearest([occurrence], top_n=1)

    [exact] = index.nearest([occurrence], top_n=1)
    for layer, [nearest] in exact.items():
        assert other[layer][0].similarity == pytest.approx(nearest.similarity, abs=0.05)


def test_an_index_works_with_a_forward_bilm(forward_directory, text_file, tmp_path):
    embedder = Embedder(forward_directory)
    build_occurrence_index(embedder, [text_file], tmp_path / "index")
    index = OccurrenceIndex(tmp_path / "index", embedder)

    [found] = index.nearest([Occurrence(["the", "bank", "failed"], 1)], layers=[2], top_n=2)

    # The following tokens are not read, so both occurrences have the same vector.
    assert {(one.sentence, one.position) for one in found[2]} >= {(0, 1)}
    assert found[2][0].similarity == pytest.approx(1)
    assert len(index.nearest_types("bank", top_n=3)) == 3


def test_an_index_of_another_model_is_refused(folder):
    other = Embedder(BiLM(BiLMConfig.preset("tiny")))

    with pytest.raises(ValueError, match=r"was built with another biLM, "):
        OccurrenceIndex(folder, other)


def test_embedders_without_all_layers_are_refused(folder, bilm, text_file, tmp_path):
    top = Embedder(bilm, layers="top")

    with pytest.raises(ValueError, match=r"`model` must return all layers.*Received: 'top'"):
        OccurrenceIndex(folder, top)
    with pytest.raises(ValueError, match=r"`embedder` must return all layers.*Received: 'top'"):
        build_occurrence_index(top, [text_file], tmp_path / "index")


def _changed(folder, target, **changes):
    """Copies an index and changes its description."""
    shutil.copytree(folder, target)
    content = json.loads((target / "index.json").read_text())
    (target / "index.json").write_text(json.dumps({**content, **changes}))
    return target


def test_unnamed_and_missing_models_are_errors(folder, tmp_path):
    nameless = _changed(folder, tmp_path / "nameless", model=None)
    with pytest.raises(ValueError, match=r"nameless does not name its biLM. Name it"):
        OccurrenceIndex(nameless)
    gone = _changed(folder, tmp_path / "gone", model=str(tmp_path / "model"))
    with pytest.raises(FileNotFoundError, match=r"gone was built with .*model, which no longer"):
        OccurrenceIndex(gone)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        OccurrenceIndex(folder, tmp_path / "nowhere")


def test_a_model_with_changed_weights_is_refused(folder, tmp_path):
    with pytest.raises(ValueError, match=r"was built with other weights of"):
        OccurrenceIndex(_changed(folder, tmp_path / "index", digest="0123"))


def test_missing_and_damaged_index_folders_are_errors(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no index .*nowhere"):
        read_description(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"is not an index of occurrences: it has no index\.json"):
        read_description(tmp_path)
    with pytest.raises(ValueError, match=r"has index format 99, written by elmo_tf 0"):
        read_description(_changed(folder, tmp_path / "future", format=99))
    cut = shutil.copytree(folder, tmp_path / "cut")
    (cut / "types.f16").write_bytes(b"12345")
    with pytest.raises(ValueError, match=r"types\.f16 has 5 bytes, not .*Rebuild the index"):
        read_description(cut)
    (cut / "types.f16").unlink()
    with pytest.raises(ValueError, match=r"types\.f16 is missing"):
        read_description(cut)
    (cut / "index.json").write_text("{")
    with pytest.raises(ValueError, match=r"index\.json is damaged: .*Rebuild the index"):
        read_description(cut)


def test_another_text_or_max_tokens_is_refused(folder, text_file, tmp_path):
    content = read_description(folder)
    check_same_text(content, folder, [], None)
    check_same_text(content, folder, [str(text_file)], None)
    roundabout = text_file.parent / ".." / text_file.parent.name / text_file.name
    check_same_text(content, folder, [str(roundabout)], None)
    other = tmp_path / "other.txt"
    other.write_text("other")

    with pytest.raises(ValueError, match=r"was built from other files, or .*1 files"):
        check_same_text(content, folder, [str(text_file), str(other)], None)
    with pytest.raises(ValueError, match=r"built with max_tokens=None, not 5"):
        check_same_text(content, folder, [], 5)
