import numpy as np
import pytest

from elmo_tf.evaluation.layer_vectors import unit_vectors
from elmo_tf.evaluation.occurrence_index import layer_index
from elmo_tf.evaluation.occurrence_index.layer_index import (
    MAX_EXHAUSTIVE,
    LayerSearch,
    LayerWriter,
    sample_size,
)

DIM = 12
MANY = MAX_EXHAUSTIVE + 3_000


def _vectors(number, seed=0):
    """Vectors in clusters, like the vectors of a word."""
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(200, DIM))
    return unit_vectors(middles[rng.integers(200, size=number)] + rng.normal(size=(number, DIM)))


def _written(folder, vectors, parts_of):
    sample = vectors[: sample_size(len(vectors))]
    writer = LayerWriter(folder, 1, DIM, len(vectors), sample)
    for start in range(0, len(vectors), parts_of):
        writer.add(vectors[start : start + parts_of])
    writer.close()
    return writer.parts


@pytest.fixture(scope="module", params=[500, MANY], ids=["few", "many"])
def stored(request, tmp_path_factory):
    """Vectors and their search index, in several files."""
    vectors = _vectors(request.param)
    folder = tmp_path_factory.mktemp("layer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_index, "_PART_BYTES", DIM * len(vectors) // 3)
        parts = _written(folder, vectors, parts_of=70)
    assert len(parts) > 2
    return vectors, LayerSearch(folder, parts)


def test_nearest_vectors_are_found(stored):
    vectors, search = stored
    hits = []
    for row in range(0, len(vectors), len(vectors) // 50):
        found = search.nearest(vectors[row], 20)
        assert found[0] == row
        hits.append(np.isin(np.argsort(-(vectors @ vectors[row]))[:5], found).mean())

    assert np.mean(hits) > 0.98


@pytest.mark.parametrize("limit", ["only", "without"])
def test_search_can_be_limited_to_tokens_or_exclude_tokens(stored, limit):
    vectors, search = stored
    numbers = np.arange(0, len(vectors), 7)
    is_listed = np.isin(np.arange(len(vectors)), numbers)
    allowed = is_listed if limit == "only" else ~is_listed

    found = search.nearest(vectors[21], 9, **{limit: numbers})

    assert len(found) == 9
    assert allowed[found].all()
    expected = np.where(allowed, vectors @ vectors[21], -np.inf).argmax()
    assert expected in found


def test_allowed_tokens_are_found_in_any_cluster(stored):
    vectors, search = stored
    farthest = np.sort(np.argsort(vectors @ vectors[3])[:20])

    found = search.nearest(vectors[3], 20, only=farthest)

    assert sorted(found) == farthest.tolist()


def test_the_requested_number_of_tokens_is_found(stored):
    vectors, search = stored
    count = len(vectors) - 100

    assert len(set(search.nearest(vectors[3], count))) == count
    assert len(set(search.nearest(vectors[3], count, without=np.arange(100)))) == count


def test_results_are_limited_to_the_available_tokens(stored):
    vectors, search = stored

    assert search.nearest(vectors[4], 5, only=np.array([4])).tolist() == [4]
    assert len(search.nearest(vectors[4], 5, only=np.zeros(0, np.int64))) == 0
    if len(vectors) == 500:
        assert sorted(search.nearest(vectors[4], 10_000)) == list(range(500))


def test_sample_size_is_zero_for_few_vectors_and_bounded_for_many():
    assert sample_size(MAX_EXHAUSTIVE) == 0
    assert MAX_EXHAUSTIVE / 2 < sample_size(MAX_EXHAUSTIVE + 1) <= MAX_EXHAUSTIVE + 1
    assert sample_size(10**9) == sample_size(10**10) < 200_000


def test_zero_vectors_remain_zero():
    assert unit_vectors(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [
        [pytest.approx(0.6), pytest.approx(0.8)],
        [0, 0],
    ]


def test_a_damaged_file_is_an_error(tmp_path):
    parts = _written(tmp_path, _vectors(30), parts_of=30)
    path = tmp_path / parts[0].name
    path.write_bytes(path.read_bytes()[:50])

    with pytest.raises(ValueError, match=r"layer_1\.0000\.faiss is damaged: .*Rebuild the index"):
        LayerSearch(tmp_path, parts)
