"""Warm-up requests, which TF Serving runs when it loads a model: later requests are fast."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from elmo_tf.saved_models.messages import predict_request

# Relative to the folder of a version; TF Serving's path.
WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
_BATCH_SIZES = (1, 8, 32)  # sentences per request: TensorFlow prepares kernels for each size
MOST_SENTENCES = _BATCH_SIZES[-1]  # further sentences are not used


def write_warmup(version: str | os.PathLike, sentences: Sequence[list[str]]) -> None:
    """Writes requests of several sizes, with strings and with tokens, to an exported model.

    Args:
        version: the folder of the version.
        sentences: at least one list of tokens; they are repeated if there are too few.
    """
    path = Path(version) / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for size in _BATCH_SIZES:
            tokens = list(itertools.islice(itertools.cycle(sentences), size))
            for batch in ([" ".join(sentence) for sentence in tokens], tokens):
                request = predict_request(model_pb2.ModelSpec(), batch)
                log = prediction_log_pb2.PredictLog(request=request)
                record = prediction_log_pb2.PredictionLog(predict_log=log)
                writer.write(record.SerializeToString())


def read_warmup(version: str | os.PathLike) -> list[predict_pb2.PredictRequest]:
    """Returns the warm-up requests of an exported model; empty if there are none."""
    path = Path(version) / WARMUP_FILE
    if not path.is_file():
        return []
    records = tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator()
    logs = (prediction_log_pb2.PredictionLog.FromString(record) for record in records)
    return [log.predict_log.request for log in logs if log.HasField("predict_log")]
