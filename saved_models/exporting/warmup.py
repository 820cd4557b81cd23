"""Warm-up requests, which TF Serving runs when it loads a model.

Without them the first requests are slow.
"""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from elmo_tf.saved_models.requests import Sentence, predict_request
from elmo_tf.text.sentences import decode

# Relative to the folder of a version; TF Serving's path.
WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
_BATCH_SIZES = (1, 8, 32)  # sentences per request: TensorFlow prepares kernels for each size
MOST_SENTENCES = _BATCH_SIZES[-1]  # further sentences are not used


def write_warmup(version: str | os.PathLike, sentences: Sequence[Sentence]) -> None:
    """Writes requests of several sizes, with sentences and with tokens, to an exported model.

    Args:
        version: the folder of the version, which contains `assets.extra`.
        sentences: at least one, from `checked_sentences`; they are repeated if there are too few.
    """
    texts = [
        sentence if isinstance(sentence, str | bytes) else " ".join(map(decode, sentence))
        for sentence in sentences
    ]
    path = Path(version) / WARMUP_FILE
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for size in _BATCH_SIZES:
            strings = list(itertools.islice(itertools.cycle(texts), size))
            for batch in (strings, [text.split() for text in strings]):
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
