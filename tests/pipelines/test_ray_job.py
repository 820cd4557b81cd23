"""Jobs on a Ray cluster of several nodes on this machine."""

import threading
import time

import numpy as np
import pytest

from elmo_tf import BiLM, Embedder, save_bilm
from elmo_tf.pipelines import embed_with_ray
from elmo_tf.text.sentence_files import sentence_reader
from vector_files import read_shards, vectors_of

pytestmark = [pytest.mark.more, pytest.mark.filterwarnings("ignore")]  # Ray's warnings

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    """Two nodes; the head node, where jobs start, has no core for workers."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        nodes.add_node(num_cpus=1)
        ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
        yield nodes
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Four files; one has more than half of the sentences."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    words = ["the", "cat", "sat", "서울", "on"]
    for name, number in {"a": 3, "b": 400, "c": 150, "d": 100}.items():
        lines = [" ".join(rng.choice(words, rng.integers(9))) for _ in range(number)]
        (folder / f"{name}.txt").write_bytes("\n".join(lines).encode() + b"\n\xff a\n")
    return folder


def check_rows(folder, texts, bilm):
    """Checks that every sentence is present once, with the vectors of an `Embedder`."""
    rows = read_shards(folder)
    sentences = {
        (path.name, number): sentence.tokens
        for path in texts.iterdir()
        for number, sentence in enumerate(sentence_reader(path)())
    }
    assert rows.keys() == sentences.keys()
    arrays = Embedder(bilm, layers="top").embed(sentences.values())
    for place, array in zip(sentences, arrays, strict=True):
        np.testing.assert_allclose(vectors_of(rows[place]), array, atol=1e-5)


def test_a_node_failure_loses_no_sentences(
    cluster, texts, checkpoint_directory, bilm, tmp_path, monkeypatch
):
    monkeypatch.setattr("elmo_tf.pipelines._PART_BYTES", 300)
    node = cluster.add_node(num_cpus=1)
    output = tmp_path / "out"

    def lose_node():
        while len(list(output.with_name("out.unfinished").rglob("part-*"))) < 3:
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=lose_node)
    thread.start()
    counts = embed_with_ray(
        checkpoint_directory, texts / "*", output, layers="top", batch_tokens=256
    )
    thread.join()

    assert counts["sentences"] == 657
    assert counts["invalid"] == 4
    assert len(list(output.glob("part-*"))) > 20
    check_rows(output, texts, bilm)


def test_an_interrupted_job_resumes_unless_its_model_has_changed(
    cluster, texts, bilm, tmp_path, monkeypatch
):
    monkeypatch.setattr("elmo_tf.pipelines._PART_BYTES", 4000)
    model, output = tmp_path / "model", tmp_path / "out"
    save_bilm(bilm, model)

    def embed():
        return embed_with_ray(model, texts / "*", output, layers="top")

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("elmo_tf.pipelines.put_in_place", interrupted)
        with pytest.raises(KeyboardInterrupt):
            embed()
    assert not output.exists()
    shards = sorted((tmp_path / "out.unfinished" / "shards").glob("part-*"))
    written = {shard.name: shard.stat().st_mtime_ns for shard in shards}
    shards[0].unlink()

    save_bilm(BiLM(bilm.config), model)
    with pytest.raises(FileExistsError, match="another job, with a different digest of the model"):
        embed()
    save_bilm(bilm, model)
    counts = embed()

    changed = [path for path in output.iterdir() if path.stat().st_mtime_ns != written[path.name]]
    assert [path.name for path in changed] == [shards[0].name]
    assert counts["sentences"] == 657
    check_rows(output, texts, bilm)
    with pytest.raises(FileExistsError, match="out exists"):
        embed()


def test_errors_name_a_missing_model_and_the_file_and_line_of_bad_text(
    cluster, checkpoint_directory, tmp_path
):
    (tmp_path / "a.txt").write_bytes(b"a\nb\rc\n")

    with pytest.raises(ValueError, match=r"a\.txt, line 2: a carriage return"):
        embed_with_ray(checkpoint_directory, tmp_path / "a.txt", tmp_path / "out")
    (tmp_path / "b.txt").write_text("a\n")
    with pytest.raises(FileNotFoundError, match="no_model"):
        embed_with_ray("no_model", tmp_path / "b.txt", tmp_path / "out")
