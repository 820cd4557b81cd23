"""Training on two hosts with separate addresses, whose connection loses packets or breaks."""

import time

import pytest

import hosts
import launching
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


def test_two_hosts_with_packet_loss_train_as_one_process(connected, settings, tmp_path):
    deterministic = {**settings, "batch_size": 4, "num_sampled": 1000, "dropout": 0.0, "steps": 20}
    pretrain(PretrainConfig(**deterministic, workdir=tmp_path / "alone"))
    hosts.lose_packets(2)

    launching.finish(*hosts.start_workers(deterministic, tmp_path / "hosts"))

    ours, expected = read_log(tmp_path / "hosts"), read_log(tmp_path / "alone")
    for entry, other in zip(ours, expected, strict=True):
        assert entry == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("fault", ["cable", "host 0", "host 1"])
def test_a_lost_host_is_named_and_both_resume_exactly(connected, settings, tmp_path, fault):
    settings = {**settings, "batch_size": 4, "save_every": 5, "valid": ()}
    launching.finish(*hosts.start_workers(settings, tmp_path / "whole", steps=40))
    workdir = tmp_path / "run"
    workers = hosts.start_workers(settings, workdir, steps=100_000)
    launching.wait_for_steps(workdir, 12, *workers)

    start = time.monotonic()
    if fault == "cable":
        hosts.set_cable("down")
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
    hosts.set_cable("up")
    done = len(read_log(workdir))
    launching.finish(*hosts.start_workers(settings, workdir, steps=max(40, done), resume=True))
    assert read_log(workdir)[:40] == read_log(tmp_path / "whole")
