"""Opens the transport for a server address."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import urllib3

from elmo_tf.saved_models.client.grpc_transport import GrpcTransport
from elmo_tf.saved_models.client.rest_transport import RestTransport

MAX_RETRIES = 4  # gRPC makes at most five attempts
# gRPC's own target syntax, which gRPC checks itself.
_GRPC_TARGETS = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "vsock:", "xds:")
_HOST_AND_PORT = re.compile(r"(?:[^\s/:\[\]]+|\[[0-9A-Fa-f:.%]+\]):\d{1,5}")
_URL = re.compile(r"(grpcs?|https?)://([^\s?#]+)", re.IGNORECASE)


def open_transport(
    address: str,
    retries: int,
    pem_files: Sequence[str | os.PathLike | None],
    headers: Mapping[str, str],
) -> GrpcTransport | RestTransport:
    """Returns the transport to a server. Nothing is sent yet.

    Args:
        address: `host:port` or `grpc://host:port` of gRPC, `grpcs://host:port` with TLS;
            `http://host:port` or `https://host:port` of REST, with the path before `/v1` if there
            is a proxy.
        retries, headers: see `Client`.
        pem_files: root certificates, client key and client certificate.

    Raises:
        OSError: a PEM file cannot be read.
        ValueError: the address is malformed, or has no TLS although there are certificates; or
            `retries` is out of range, or a client key or certificate is missing.
    """
    if not 0 <= retries <= MAX_RETRIES:
        raise ValueError(f"`retries` must be 0 … {MAX_RETRIES}, but is {retries}.")
    roots, key, certificate = pem_files
    if (key is None) != (certificate is None):
        raise ValueError(
            "`client_key` and `client_certificate` go together, but only one was given."
        )
    contents = [None if path is None else Path(path).read_bytes() for path in pem_files]
    url = _URL.fullmatch(address)
    scheme, rest = (url[1].lower(), url[2]) if url else ("grpc", address)
    is_secure = scheme in ("grpcs", "https")
    if (roots is not None or key is not None) and not is_secure:
        raise ValueError(
            "Certificates need an address with TLS, grpcs:// or https://, but the address is "
            f"{address!r}."
        )
    if scheme.startswith("http"):
        if not urllib3.util.parse_url(address).host:
            raise ValueError(f"The address has no host: {address!r}.")
        url = f"{scheme}://{rest.rstrip('/')}"
        return RestTransport(address, url, retries, pem_files, headers)
    if not _HOST_AND_PORT.fullmatch(rest) and (url or not rest.startswith(_GRPC_TARGETS)):
        raise ValueError(
            "The address must be host:port of the server's gRPC, such as localhost:8500, or "
            f"begin with grpc://, grpcs://, http:// or https://, but is {address!r}."
        )
    return GrpcTransport(address, rest, retries, contents if is_secure else None, headers)
