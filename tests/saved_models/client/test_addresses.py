"""Addresses and options of a client."""

import pytest

from elmo_tf.saved_models.client.client import Client

BAD_ADDRESS = "must be host:port .* localhost:8500, or begin with grpc://.*, but is '{}'"
OTHERS = ("ftp://localhost:1", "grpc://localhost", "grpcs://localhost", "a b:1", "h:x", "localhost")


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        *((address, {}, BAD_ADDRESS.format(address)) for address in (*OTHERS, "")),
        *((url, {}, f"has no host: '{url}'") for url in ("http://:8501", "https:///v1")),
        *(
            ("localhost:1", {"retries": retries}, rf"`retries` must be 0 … 4, but is {retries}\.")
            for retries in (-1, 5)
        ),
        *(
            ("localhost:1", {name: 0}, "`batch_size` and `batch_tokens` must be at least 1")
            for name in ("batch_size", "batch_tokens")
        ),
        (
            *("localhost:1", {"root_certificates": __file__}),
            "Certificates need an address with TLS, grpcs://",
        ),
        ("grpcs://h:1", {"client_key": "key.pem"}, "`client_key` and `client_certificate` go tog"),
    ],
)
def test_an_invalid_address_or_option_is_an_error(address, options, message):
    with pytest.raises(ValueError, match=message):
        Client(address, **options)


@pytest.mark.parametrize(
    "address",
    ["localhost:8500", "GRPC://a.b:1", "[::1]:8500", "dns:///host:1", "unix:/a/b", "grpcs://h:1"],
)
def test_grpc_addresses_are_accepted(address):
    Client(address).close()


def test_a_missing_certificate_is_an_error(tmp_path):
    for address in ("grpcs://localhost:1", "https://localhost:1"):
        with pytest.raises(FileNotFoundError, match=r"ca\.pem"):
            Client(address, root_certificates=tmp_path / "ca.pem")
