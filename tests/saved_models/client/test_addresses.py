"""Addresses and options of a client."""

import pytest

from elmo_tf.saved_models.client.client import Client


@pytest.mark.parametrize(
    "address",
    ["localhost", "ftp://localhost:1", "grpc://localhost", "grpcs://localhost", "a b:1", "h:x", ""],
)
def test_an_invalid_address_is_an_error(address):
    message = f"must be host:port .* localhost:8500, or begin with grpc://.*, but is '{address}'"
    with pytest.raises(ValueError, match=message):
        Client(address)


@pytest.mark.parametrize("address", ["http://:8501", "https:///v1"])
def test_a_url_needs_a_host(address):
    with pytest.raises(ValueError, match=f"The address has no host: '{address}'"):
        Client(address)


@pytest.mark.parametrize(
    "address",
    ["localhost:8500", "GRPC://a.b:1", "[::1]:8500", "dns:///host:1", "unix:/a/b", "grpcs://h:1"],
)
def test_grpc_addresses_are_accepted(address):
    Client(address).close()


@pytest.mark.parametrize("retries", [-1, 5])
def test_the_number_of_retries_is_limited(retries):
    with pytest.raises(ValueError, match=rf"`retries` must be 0 … 4, but is {retries}\."):
        Client("localhost:1", retries=retries)


@pytest.mark.parametrize("limits", [{"batch_size": 0}, {"batch_tokens": 0}])
def test_a_batch_size_below_one_is_an_error(limits):
    with pytest.raises(ValueError, match="`batch_size` and `batch_tokens` must be at least 1"):
        Client("localhost:1", **limits)


def test_certificates_need_an_address_with_tls(tmp_path):
    (tmp_path / "ca.pem").write_text("")
    with pytest.raises(ValueError, match="Certificates need an address with TLS, grpcs://"):
        Client("localhost:1", root_certificates=tmp_path / "ca.pem")


def test_a_key_needs_its_certificate(tmp_path):
    with pytest.raises(ValueError, match="`client_key` and `client_certificate` go together"):
        Client("grpcs://localhost:1", client_key=tmp_path / "key.pem")


def test_a_missing_certificate_is_an_error(tmp_path):
    for address in ("grpcs://localhost:1", "https://localhost:1"):
        with pytest.raises(FileNotFoundError, match=r"ca\.pem"):
            Client(address, root_certificates=tmp_path / "ca.pem")
