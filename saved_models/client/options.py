"""Options that apply to all requests of a client."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MAX_RETRIES = 4  # gRPC makes at most five attempts

PathOrNone = str | os.PathLike | None


@dataclass(frozen=True)
class TransportOptions:
    """Retries, TLS and headers. The files are in PEM format.

    retries: 0 … 4, of requests that failed because the server is unavailable.
    root_certificates: certificate authorities of the server; `None` means the system's.
    client_key, client_certificate: for servers that authenticate their clients.
    headers: sent with every request, such as `{"authorization": "Bearer …"}`.

    Raises:
        OSError: a file cannot be read.
        ValueError: `retries` is out of range, or `client_key` or `client_certificate` is missing.
    """

    retries: int = MAX_RETRIES
    root_certificates: PathOrNone = None
    client_key: PathOrNone = None
    client_certificate: PathOrNone = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        if not 0 <= self.retries <= MAX_RETRIES:
            raise ValueError(f"`retries` must be 0 … {MAX_RETRIES}, but is {self.retries}.")
        if (self.client_key is None) != (self.client_certificate is None):
            raise ValueError(
                "`client_key` and `client_certificate` go together, but only one was given."
            )
        self.pem_files()

    @property
    def has_certificates(self) -> bool:
        """Whether any PEM file is given."""
        return self.root_certificates is not None or self.client_key is not None

    def pem_files(self) -> list[bytes | None]:
        """Returns the contents of the root certificates, client key and client certificate."""
        paths = (self.root_certificates, self.client_key, self.client_certificate)
        return [None if path is None else Path(path).read_bytes() for path in paths]
