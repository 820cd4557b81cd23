"""TLS certificates of servers and clients."""

import shutil
import subprocess

import grpc
import numpy as np
import pytest

from elmo_tf.saved_models.client.client import Client
from serving_requests import assert_refused

if shutil.which("openssl") is None:
    pytest.skip("certificates are made by the command openssl", allow_module_level=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """`key.pem` and a self-signed `cert.pem` for localhost."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "key.pem", folder / "cert.pem"


@pytest.fixture
def secure_address(files, grpc_server, lengths):
    """`secure_address(verifies_client)` gives the address of a new server."""

    def start(verifies_client=False):
        key, certificate = (file.read_bytes() for file in files)
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)], certificate if verifies_client else None, verifies_client
        )
        return f"grpcs://localhost:{grpc_server(lengths, credentials=credentials)}"

    return start


def test_only_a_server_with_a_trusted_certificate_is_accepted(secure_address, files):
    with Client(secure_address(), root_certificates=files[1]) as client:
        np.testing.assert_array_equal(client.predict(["a"])["elmo"], [[[1.0]]])
    with Client(secure_address(), retries=0) as client:
        message = r"(?i)certificate.?verify.?failed"
        assert_refused(grpc.StatusCode.UNAVAILABLE, message, client.predict, ["a"])


def test_a_server_may_require_a_client_certificate(secure_address, files):
    key, certificate = files
    address = secure_address(verifies_client=True)
    identity = {"client_key": key, "client_certificate": certificate}
    with Client(address, root_certificates=certificate, **identity) as client:
        assert client.predict(["a"])["elmo"].shape == (1, 1, 1)
    with Client(address, root_certificates=certificate, retries=0) as client:
        assert_refused(grpc.StatusCode.UNAVAILABLE, "", client.predict, ["a"])
