"""Warm-up requests, which TF Serving runs when it loads a model."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2, prediction_service_pb2_grpc

from elmo_tf.saved_models import export, serve
from elmo_tf.saved_models.exporting.export import WARMUP_FILE, read_warmup, write_warmup
from serving_requests import serving

SENTENCES = ["the cat sat", "한국어 \udcff", ""]


@pytest.fixture(scope="module")
def warm(tmp_path_factory, bilm):
    return export(bilm, tmp_path_factory.mktemp("warm"), warmup=SENTENCES, check=False)


def test_served_warm_up_requests_equal_the_live_model(warm, bilm):
    requests = read_warmup(warm)

    sizes = [(request.model_spec.signature_name, num_sentences(request)) for request in requests]
    assert sizes == [(name, n) for n in (1, 8, 32) for name in ("serving_default", "tokens")]
    layers = bilm(SENTENCES)["layers"].numpy()
    with serving(Path(warm).parent) as (_, channel):
        predict = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
        for request in requests:
            request.model_spec.name = "elmo"
            answer = tf.make_ndarray(predict(request, timeout=60).outputs["lstm_outputs2"])
            places = np.arange(num_sentences(request)) % len(SENTENCES)
            np.testing.assert_allclose(answer, layers[places, 2], atol=1e-5)


def num_sentences(request):
    (shape,) = {value.tensor_shape.dim[0].size for value in request.inputs.values()}
    return shape


def test_sentences_may_be_lists_of_tokens_or_none(warm, tmp_path, exported_bilm):
    write_warmup(tmp_path, [sentence.split() for sentence in SENTENCES])
    assert read_warmup(tmp_path) == read_warmup(warm)
    assert read_warmup(exported_bilm) == []
    assert not list(Path(exported_bilm).rglob("tf_serving_warmup_requests"))


def test_a_version_that_fails_its_warm_up_is_not_served(warm, tmp_path):
    shutil.copytree(warm, tmp_path / "1")
    (request, *_) = read_warmup(warm)
    request.inputs["strings"].CopyFrom(tf.make_tensor_proto([1.0]))
    log = prediction_log_pb2.PredictLog(request=request)
    with tf.io.TFRecordWriter(str(tmp_path / "1" / WARMUP_FILE)) as writer:
        writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())

    with pytest.raises(tf.errors.InvalidArgumentError, match="strings must be string"):
        serve(tmp_path, port=0, rest_port=0)
