import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from elmo_tf.saved_models.exporting.warmup import write_warmup
from elmo_tf.saved_models.server import sessions
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.sessions import LoadedVersion


def request_of(*sentences, outputs=()):
    return predict_pb2.PredictRequest(
        inputs={"strings": tf.make_tensor_proto(sentences, tf.string)}, output_filter=outputs
    )


def test_requests_that_warm_up_have_no_limits(model_directory, tmp_path):
    shutil.copytree(model_directory / "2", tmp_path / "2")
    (tmp_path / "2" / "assets.extra").mkdir()
    write_warmup(tmp_path / "2", ["a bb"])
    version = LoadedVersion(2, tmp_path / "2", Limits(max_sentences=2))
    assert version.answer(request_of("a", "b")).outputs
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 3 sentences, more than 2"):
        version.answer(request_of("a", "b", "c"))
    version.close()


def test_a_session_is_prepared_for_few_choices_of_outputs(model_directory, monkeypatch):
    monkeypatch.setattr(sessions, "_MAX_FETCHES", 2)
    version = LoadedVersion(2, model_directory / "2")
    fetched = []
    run = version._session.run

    def noting(names, feeds):
        fetched.append(len(names))
        return run(names, feeds)

    monkeypatch.setattr(version._session, "run", noting)
    choices = [["elmo"], ["default"], ["word_emb", "elmo"], ["elmo", "word_emb"], ["elmo"]]
    for outputs in choices:
        response = version.answer(request_of("a bb", outputs=outputs))
        assert set(response.outputs) == set(outputs)
        if "elmo" in outputs:
            elmo = tf.make_ndarray(response.outputs["elmo"])
            np.testing.assert_allclose(elmo[0, :, 0], [100, 200])
    assert fetched == [1, 1, 4, 4, 1]
    version.close()
