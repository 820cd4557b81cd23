"""Requests that TF Serving answers for itself when it loads a model, before any user asks.

Without them the first users wait while kernels are prepared.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from elmo_tf.saved_models.requests import predict_request

# In the folder of a version, where TF Serving looks for it.
WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
# Sentences of a request: TensorFlow prepares its kernels for each size anew.
_BATCH_SIZES = (1, 8, 32)
# No request has more, so that further ones are not needed.
MOST_SENTENCES = _BATCH_SIZES[-1]


def write_warmup(version: str | os.PathLike, sentences: Sequence[str]) -> None:
    """Writes requests of several sizes, of sentences and of tokens, beside an exported model.

    Args:
        version: its folder, which has `assets.extra`.
        sentences: at least one; they are taken again where there are too few.
    """
    path = Path(version) / WARMUP_FILE
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for size in _BATCH_SIZES:
            strings = [sentences[number % len(sentences)] for number in range(size)]
            for batch in (strings, [sentence.split() for sentence in strings]):
                request = predict_request(model_pb2.ModelSpec(), batch)
                log = prediction_log_pb2.PredictLog(request=request)
                record = prediction_log_pb2.PredictionLog(predict_log=log)
                writer.write(record.SerializeToString())


def read_warmup(version: str | os.PathLike) -> list[predict_pb2.PredictRequest]:
    """The requests that lie beside an exported model; none if there is no such file."""
    path = Path(version) / WARMUP_FILE
    if not path.is_file():
        return []
    records = tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator()
    logs = (prediction_log_pb2.PredictionLog.FromString(record) for record in records)
    return [log.predict_log.request for log in logs if log.HasField("predict_log")]
