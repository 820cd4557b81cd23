"""Finding, exporting, loading and unloading the versions of a model."""

import json
import shutil
import tempfile
import time

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.saved_models import Client, serve
from elmo_tf.saved_models.client import ServerError
from elmo_tf.saved_models.exporting.export import versions_in
from elmo_tf.saved_models.server import model
from elmo_tf.text.reading import encode
from serving_requests import asking, outputs_over_rest, predict, send, serving


def test_a_server_swaps_versions_under_load_without_a_failed_request(
    model_directory, tmp_path, caplog, monkeypatch
):
    """A broken version does not replace a loaded one, and its error is logged."""
    caplog.set_level("INFO", logger="absl")
    monkeypatch.setattr(model, "_POLL_SECONDS", 0.05)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "saved_model.pb").write_bytes(b"broken")

    def put(source, number):
        """Adds or replaces a version, which appears as a whole."""
        shutil.copytree(source, tmp_path / "new")
        shutil.rmtree(tmp_path / str(number), ignore_errors=True)
        (tmp_path / "new").rename(tmp_path / str(number))

    put(model_directory / "1", 9)
    with serving(tmp_path) as (server, channel):

        def scale():
            answer = predict(channel, {"strings": tf.make_tensor_proto(["a"])})
            return tf.make_ndarray(answer.outputs["elmo"])[0, 0, 0]

        def scale_over_rest():
            return outputs_over_rest(server, ["a"])["elmo"][0, 0, 0]

        def statuses():
            _, _, text = send(server, "GET", "/v1/models/elmo")
            return json.loads(text)["model_version_status"]

        def errors():
            return caplog.text.count("Cannot load a new version of elmo: ")

        def wait_for(condition):
            end = time.monotonic() + 20
            while not condition():
                assert time.monotonic() < end
                time.sleep(0.01)

        with asking(scale), asking(scale_over_rest):
            put(broken, 10)
            wait_for(errors)
            assert [status["version"] for status in statuses()] == ["9"]
            assert scale() == scale_over_rest() == 10
            time.sleep(0.2)
            assert errors() == 1  # not tried again
            put(model_directory / "2", 10)
            wait_for(lambda: scale() == 100)
            assert scale_over_rest() == 100
            status = {"error_code": "OK", "error_message": ""}
            assert statuses() == [{"version": "10", "state": "AVAILABLE", "status": status}]
            wait_for(lambda: "Unloaded elmo, version 9." in caplog.text)
            shutil.rmtree(tmp_path / "10")  # the newest version that is left is loaded
            wait_for(lambda: "Unloaded elmo, version 10." in caplog.text)
            shutil.rmtree(tmp_path / "9")
            time.sleep(0.2)
            assert scale() == scale_over_rest() == 10  # the last version serves on


SENTENCES = ["the cat sat", "", "한국어 a"]


def test_a_served_checkpoint_is_exported_to_a_temporary_folder(
    tmp_path, monkeypatch, checkpoint_directory, bilm
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        serve(checkpoint_directory, port=0, rest_port=0) as running,
        Client(f"localhost:{running.port}") as client,
    ):
        answer = client.predict(SENTENCES, ("lstm_outputs1", "lstm_outputs2"))
        assert len(list(tmp_path.glob("elmo_tf-*/1/saved_model.pb"))) == 1

    layers = bilm(SENTENCES)["layers"]
    for layer in (1, 2):
        np.testing.assert_allclose(answer[f"lstm_outputs{layer}"], layers[:, layer], 1e-5, 1e-5)
    (tmp_path / "options.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"no \*weights.hdf5 or .* or model.hdf5 in"):
        serve(tmp_path, port=0, rest_port=0)
    assert list(tmp_path.glob("elmo_tf-*")) == []


def test_raw_text_has_the_vectors_and_places_of_its_tokens(naming_tokenizer, caplog):
    texts, tokens = ["Größe: 3.5 cats!", "", "b\udcff"], [["Größe", ":", "3.5", "cats", "!"], []]
    with (
        serve(naming_tokenizer("xx"), port=0, rest_port=0) as running,
        Client(f"localhost:{running.port}", batch_size=1) as client,
    ):
        expected = client.predict([*tokens, ["b", "\udcff"]], (), "tokens")
        found = client.predict(texts, (), signature="text")
        words = client.predict(texts, "tokens", "text")
        over_rest = outputs_over_rest(running, texts[:2], signature="text")
        with pytest.raises(ServerError, match="their product must be at most 65536"):
            client.predict(["a" * 65_537], signature="text")
    assert (
        found["tokens"].tolist()[0] == words["tokens"].tolist()[0] == list(map(encode, tokens[0]))
    )
    assert found["tokens"][2].tolist() == [b"b", b"\xff", b"", b"", b""]
    assert found["starts"][0].tolist() == [0, 7, 9, 13, 17]
    assert found["ends"].tolist() == [[7, 8, 12, 17, 18], [0] * 5, [1, 2, 0, 0, 0]]
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-6)
        np.testing.assert_allclose(over_rest[name], array[:2], atol=1e-6)
    folder = naming_tokenizer("zz")
    with (
        serve(folder, port=0, rest_port=0) as running,
        Client(f"localhost:{running.port}") as client,
    ):
        assert client.predict(texts, "sequence_len")["sequence_len"].tolist() == [3, 0, 1]
        with pytest.raises(ServerError, match="no signature 'text'"):
            client.predict(texts, signature="text")
    assert "1 is served without the signature text: There is no tokenizer" in caplog.text


def test_versions_are_numbered_folders_with_a_model(tmp_path):
    names = ("1", "007", "12", "x", "-3", "\N{FULLWIDTH DIGIT ONE}", "5a", str(2**63))
    for name in (*names, str(2**63 - 1)):
        (tmp_path / name).mkdir()
        if name != "12":
            (tmp_path / name / "saved_model.pb").touch()

    folders = {1: "1", 7: "007", 2**63 - 1: str(2**63 - 1)}
    assert versions_in(tmp_path) == {number: tmp_path / name for number, name in folders.items()}
    assert versions_in(tmp_path / "nowhere") == {}
