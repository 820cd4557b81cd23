"""What holds for every request to a server: retries, TLS, headers. Checked when it is given."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MAX_RETRIES = 4  # gRPC makes five attempts at most.


@dataclass(frozen=True)
class TLS:
    """Files in PEM that prove who somebody is; each may be `None`.

    root_file: certificates of those who may vouch for the server; `None` means the usual ones.
    key_file, chain_file: the caller's own, for a server that wants to know who asks.

    Raises:
        OSError: a file cannot be read.
        ValueError: one of the caller's own two files is missing.
    """

    root_file: str | os.PathLike | None = None
    key_file: str | os.PathLike | None = None
    chain_file: str | os.PathLike | None = None
    root_certificates: bytes | None = field(init=False)
    client_key: bytes | None = field(init=False)
    client_chain: bytes | None = field(init=False)

    def __post_init__(self):
        if (self.key_file is None) != (self.chain_file is None):
            raise ValueError(
                "`client_key` and `client_certificate` go together, but only one was given."
            )
        files = {
            "root_certificates": self.root_file,
            "client_key": self.key_file,
            "client_chain": self.chain_file,
        }
        for name, path in files.items():
            content = None if path is None else Path(path).read_bytes()
            object.__setattr__(self, name, content)

    def __bool__(self) -> bool:
        return self.root_file is not None or self.key_file is not None


@dataclass(frozen=True)
class TransportOptions:
    """How requests are sent.

    retries: 0 … 4, after what may be repeated.
    tls: certificates.
    headers: sent with every request, such as `{"authorization": "Bearer …"}`.
    """

    retries: int = MAX_RETRIES
    tls: TLS = TLS()
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        if not 0 <= self.retries <= MAX_RETRIES:
            raise ValueError(f"`retries` must be 0 … {MAX_RETRIES}, but is {self.retries}.")
