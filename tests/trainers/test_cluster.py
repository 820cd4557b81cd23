"""Runs with several replicas; several processes communicate over the loopback interface."""

import json
import shutil
import signal
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf

import launching
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.checkpointing import last_save
from elmo_tf.trainers.cluster import cluster_from_environment
from runs import read_log


@pytest.fixture(scope="module")
def deterministic(real_settings):
    """Without dropout and sampling, whose random numbers differ from replica to replica."""
    size = {"steps": 20, "batch_size": 4, "eval_every": 10, "save_every": 10}
    changes = {"dropout": 0.0, "num_sampled": 1000, "clip_norm": 0.5, "ema": 0.5}
    return {**real_settings, **changes, **size}


@pytest.fixture(scope="module", params=["adagrad", "adamw"])
def single_replica(request, tmp_path_factory, deterministic):
    """The settings of a run with one replica, its log, and the held-out perplexities."""
    settings = {**deterministic, "optimizer": request.param}
    if request.param == "adamw":
        settings |= {"weight_decay": 0.1, "schedule": "constant", "warmup_steps": 5}
    workdir = tmp_path_factory.mktemp("alone") / "run"
    record = pretrain(PretrainConfig(**settings, workdir=workdir))
    return settings, read_log(workdir), record["perplexity"]


def assert_same_curve(log, expected):
    assert log == [pytest.approx(entry, rel=1e-6) for entry in expected]


@pytest.mark.more
def test_two_devices_have_the_losses_of_one_and_one_resumes_their_run(
    tmp_path, single_replica, caplog
):
    workdir = tmp_path / "run"
    settings, log, perplexities = single_replica
    launching.finish(launching.start(settings, workdir, num_devices=2, steps=10))
    assert_same_curve(read_log(workdir), log[:10])
    # One device resumes with the batch rows of both.
    with caplog.at_level("INFO", logger="absl"):
        record = pretrain(PretrainConfig(**settings, workdir=workdir, resume=True))
    assert_same_curve(read_log(workdir), log)
    assert_same_curve(record["perplexity"], perplexities)
    assert "was saved by 2 replicas and is resumed with 1" in caplog.text


@pytest.mark.slow
def test_two_workers_have_the_losses_of_one(tmp_path, single_replica):
    workdir = tmp_path / "run"
    settings, log, perplexities = single_replica
    launching.finish(*launching.start_workers(settings, workdir))
    assert_same_curve(read_log(workdir), log)
    record = json.loads((workdir / "training.json").read_text())
    assert_same_curve(record["perplexity"], perplexities)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_killing_one_worker_stops_the_other_and_both_resume_exactly(tmp_path, settings, victim):
    """With dropout and few negatives, so that random numbers must be repeated too."""
    settings = {**settings, "batch_size": 4, "save_every": 5}
    whole = tmp_path / "whole"
    launching.finish(*launching.start_workers(settings, whole, steps=40))

    workdir = tmp_path / "run"
    workers = launching.start_workers(settings, workdir, steps=100_000)
    launching.wait_for_steps(workdir, 12, *workers)
    workers[victim].kill()
    start = time.monotonic()
    workers[victim].communicate()
    other = workers[1 - victim]
    _, errors = other.communicate(timeout=60)
    assert time.monotonic() - start < 30
    assert other.returncode not in (0, -signal.SIGKILL)
    assert "has stopped, or cannot be reached. Restart all workers" in errors
    assert "TensorFlow says: Collective ops is aborted" in errors

    done = len(read_log(workdir))
    launching.finish(*launching.start_workers(settings, workdir, steps=max(40, done), resume=True))
    assert read_log(workdir)[:40] == read_log(whole)


@pytest.mark.slow
def test_sigterm_to_one_worker_saves_and_stops_all_workers(tmp_path, deterministic):
    workdir = tmp_path / "run"
    long = {"steps": 100_000, "save_every": 100_000, "valid": ()}
    workers = launching.start_workers(deterministic, workdir, **long)
    launching.wait_for_steps(workdir, 3, *workers)
    workers[1].terminate()
    for worker in workers:
        worker.communicate(timeout=60)
        assert worker.returncode == 128 + signal.SIGTERM
    (save,) = (workdir / "state").iterdir()
    assert json.loads((save / "COMPLETE").read_text())["step"] == len(read_log(workdir))


@pytest.mark.slow
def test_workers_without_a_shared_work_directory_fail_at_the_first_save(tmp_path, deterministic):
    folders = [tmp_path / "a", tmp_path / "b"]
    workers = launching.start_workers({**deterministic, "valid": ()}, folders)
    first, _ = launching.errors_of(*workers)
    assert "lacks worker-1-of-2-rows.npz, worker-1-of-2-text.index. All workers must" in first
    assert last_save(folders[0]) is None


@pytest.mark.slow
def test_workers_that_see_different_last_saves_fail_to_resume(tmp_path, deterministic):
    changes = {"valid": (), "steps": 10, "save_every": 5}
    workdir = tmp_path / "run"
    settings = {**deterministic, **changes}
    launching.finish(*launching.start_workers(settings, workdir))
    other = shutil.copytree(workdir, tmp_path / "late")
    shutil.rmtree(other / "state" / "step-00000010")
    workers = launching.start_workers(settings, [workdir, other], steps=15, resume=True)
    for errors in launching.errors_of(*workers):
        assert "see different last saves, of the steps 10, 5" in errors
    assert len(read_log(workdir)) == 10


def tf_config(**cluster):
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 2}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "TF_CONFIG must look like"),
        (tf_config(worker=["a:1", "b:2"]), "TF_CONFIG must look like"),
        (tf_config(worker=["a:1", "b:2"], ps=["c:3"]), "of the types chief and worker"),
    ],
)
def test_an_invalid_tf_config_of_several_workers_raises_an_error(monkeypatch, content, message):
    monkeypatch.setenv("TF_CONFIG", content)
    with pytest.raises(ValueError, match=message):
        cluster_from_environment(4)
    monkeypatch.setenv("TF_CONFIG", tf_config(worker=["a:1"], ps=["c:3"]))
    assert cluster_from_environment(4).num_replicas == 1


def test_a_batch_size_not_divisible_by_the_replicas_raises_an_error(monkeypatch):
    strategy = SimpleNamespace(num_replicas_in_sync=3)
    monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)
    with pytest.raises(ValueError, match=r"of the number of replicas, 3\. Received: 4"):
        cluster_from_environment(4)
    assert cluster_from_environment(6).num_replicas == 3
