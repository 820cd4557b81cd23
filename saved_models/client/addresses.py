"""Opens the transport for a server address."""

import re

import urllib3

from elmo_tf.saved_models.client.calls import TransportOptions
from elmo_tf.saved_models.client.grpc_transport import GrpcTransport
from elmo_tf.saved_models.client.rest_transport import RestTransport

# gRPC's own target syntax, which gRPC checks itself.
_GRPC_TARGETS = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "vsock:", "xds:")
_HOST_AND_PORT = re.compile(r"(?:[^\s/:\[\]]+|\[[0-9A-Fa-f:.%]+\]):\d{1,5}")
_URL = re.compile(r"(grpcs?|https?)://([^\s?#]+)", re.IGNORECASE)

Transport = GrpcTransport | RestTransport


def open_transport(address: str, options: TransportOptions) -> Transport:
    """Returns the transport to a server. Nothing is sent yet.

    Args:
        address: `host:port` or `grpc://host:port` of gRPC, `grpcs://host:port` with TLS;
            `http://host:port` or `https://host:port` of REST, with the path before `/v1` if there
            is a proxy.
        options: retries, TLS, headers.

    Raises:
        ValueError: the address is malformed, or has no TLS although there are certificates.
    """
    url = _URL.fullmatch(address)
    scheme, rest = (url[1].lower(), url[2]) if url else ("grpc", address)
    is_secure = scheme in ("grpcs", "https")
    has_certificates = options.root_certificates is not None or options.client_key is not None
    if has_certificates and not is_secure:
        raise ValueError(
            "Certificates need an address with TLS, grpcs:// or https://, but the address is "
            f"{address!r}."
        )
    if scheme.startswith("http"):
        if not urllib3.util.parse_url(address).host:
            raise ValueError(f"The address has no host: {address!r}.")
        return RestTransport(address, f"{scheme}://{rest.rstrip('/')}", options)
    if not _HOST_AND_PORT.fullmatch(rest) and (url or not rest.startswith(_GRPC_TARGETS)):
        raise ValueError(
            "The address must be host:port of the server's gRPC, such as localhost:8500, or "
            f"begin with grpc://, grpcs://, http:// or https://, but is {address!r}."
        )
    return GrpcTransport(address, rest, is_secure, options)
