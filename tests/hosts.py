"""Two hosts on this machine: network namespaces with a cable between them."""

import contextlib
import os
import shutil
import subprocess

import launching

ADDRESSES = ("10.77.0.1", "10.77.0.2")
_NAMES = ("elmo-tf-a", "elmo-tf-b")


def can_make_hosts():
    """Whether this process may make network namespaces and filter their packets."""
    probe = "elmo-tf-probe"
    can = os.geteuid() == 0 and all(map(shutil.which, ("ip", "nft")))
    can = can and _called("ip", "netns", "add", probe) == 0
    return can and _called("ip", "netns", "delete", probe) == 0


@contextlib.contextmanager
def two_hosts():
    """Creates two hosts for a block, each with an address and a loopback interface."""
    try:
        for name in _NAMES:
            _run("ip", "netns", "add", name)
        _run(
            *("ip", "link", "add", "cable", "netns", _NAMES[0], "type", "veth"),
            *("peer", "name", "cable", "netns", _NAMES[1]),
        )
        for name, address in zip(_NAMES, ADDRESSES, strict=True):
            inside = ("ip", "-netns", name)
            _run(*inside, "address", "add", f"{address}/24", "dev", "cable")
            _run(*inside, "link", "set", "cable", "up")
            _run(*inside, "link", "set", "lo", "up")
        yield
    finally:
        for name in _NAMES:
            _called("ip", "netns", "delete", name)


def lose_packets(percent):
    """Makes both hosts lose a share of the packets that they receive."""
    for name in _NAMES:
        nft = ("ip", "netns", "exec", name, "nft")
        _run(*nft, "add table inet loss")
        _run(*nft, "add chain inet loss in { type filter hook input priority 0 ; }")
        _run(*nft, f"add rule inet loss in iifname cable numgen random mod 100 < {percent} drop")


def set_cable(state):
    """Breaks the connection ("down"), or restores it ("up")."""
    _run("ip", "-netns", _NAMES[0], "link", "set", "cable", state)


def start_workers(settings, workdir, **changes):
    """Starts a worker on each host; the workers share a work directory."""
    cluster = {"worker": [f"{address}:41000" for address in ADDRESSES]}
    return [
        launching.start(
            settings,
            workdir,
            tf_config={"cluster": cluster, "task": {"type": "worker", "index": index}},
            prefix=("ip", "netns", "exec", name),
            **changes,
        )
        for index, name in enumerate(_NAMES)
    ]


def _run(*command):
    subprocess.run(command, check=True, capture_output=True)


def _called(*command):
    return subprocess.run(command, capture_output=True).returncode
