"""Training on two hosts with addresses of their own, whose connection loses packets or breaks."""

import time

import pytest

import hosts
from elmo_tf.trainers import PretrainConfig, pretrain
from runs import read_log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hosts.can_make_hosts(), reason="needs root, ip and nft"),
]


@pytest.fixture
def connected():
    with hosts.two_hosts():
        yield


def finish(workers):
    for worker in workers:
        _, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors


def wait_for_steps(workdir, count, workers):
    log = workdir / "log.jsonl"
    while not log.exists() or log.read_text().count("\n") < count:
        for worker in workers:
            assert worker.poll() is None, worker.stderr.read()
        time.sleep(0.05)


def test_hosts_that_lose_packets_train_as_one_process_does(connected, settings, tmp_path):
    certain = {**settings, "batch_size": 4, "num_sampled": 1000, "dropout": 0.0, "steps": 20}
    pretrain(PretrainConfig(**certain, workdir=tmp_path / "alone"))
    hosts.lose_packets(2)

    finish(hosts.start_workers(certain, tmp_path / "hosts"))

    ours, expected = read_log(tmp_path / "hosts"), read_log(tmp_path / "alone")
    for entry, other in zip(ours, expected, strict=True):
        assert entry == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("fault", ["cable", "host 0", "host 1"])
def test_a_lost_host_is_named_and_both_resume_exactly(connected, settings, tmp_path, fault):
    settings = {**settings, "batch_size": 4, "save_every": 5, "valid": ()}
    finish(hosts.start_workers(settings, tmp_path / "whole", steps=40))
    workdir = tmp_path / "run"
    workers = hosts.start_workers(settings, workdir, steps=100_000)
    wait_for_steps(workdir, 12, workers)

    start = time.monotonic()
    if fault == "cable":
        hosts.cut_cable()
        survivors = {0: 1, 1: 0}
    else:
        lost = int(fault[-1])
        workers[lost].kill()
        workers[lost].communicate()
        survivors = {1 - lost: lost}
    for worker, lost in survivors.items():
        _, errors = workers[worker].communicate(timeout=120)
        assert workers[worker].returncode not in (0, -9)
        assert f"{hosts.ADDRESSES[lost]}:41000" in errors

    assert time.monotonic() - start < 60
    hosts.mend_cable()
    done = len(read_log(workdir))
    finish(hosts.start_workers(settings, workdir, steps=max(40, done), resume=True))
    assert read_log(workdir)[:40] == read_log(tmp_path / "whole")
