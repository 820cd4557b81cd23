"""Tokens per second of task models, in training and in prediction, with and without ELMo.

Each model has the settings of a sweep, as `elmo-tf task sweep --json` wrote them. Two epochs are
trained on a share of the data, of which the second is timed, with cached layers of the biLM; then
the held-out examples are predicted from strings, twice, of which the second time counts.

    python benchmarks/task_models.py squad.json srl.json coref.json
"""

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path

import keras

from elmo_tf.trainers.tasks.answering import predict_batches
from elmo_tf.trainers.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.kinds import KINDS
from elmo_tf.trainers.tasks.training import _read_examples, train_task
from elmo_tf.trainers.tasks.workdir import load_model


def main():
    """Prints one line of JSON per model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sweeps", nargs="+", metavar="SWEEP.json", help="settings of a task")
    parser.add_argument("--data", default=".", help="folder of the files that the settings name")
    parser.add_argument("--share", type=float, default=0.1, help="share of the training examples")
    arguments = parser.parse_args()
    for sweep in arguments.sweeps:
        settings = json.loads(Path(sweep).read_text())["settings"]
        for has_elmo in (False, True):
            print(json.dumps(measured(settings, Path(arguments.data), arguments.share, has_elmo)))


def measured(settings, data, share, has_elmo):
    """The tokens per second of one model."""
    files = {name: [str(data / file) for file in settings[name]] for name in ("train", "dev")}
    with tempfile.TemporaryDirectory() as folder:
        config = TaskConfig(**{**settings, **files, "workdir": folder, "share": share})
        vectors = config.word_vectors and str(data / config.word_vectors)
        config = dataclasses.replace(config, word_vectors=vectors, epochs=2, cache_gb=0)
        if not has_elmo:
            config = dataclasses.replace(config, elmo=None, placement="input")
        kind = KINDS[config.task]
        examples = _read_examples(config, kind)
        record = train_task(config)
        model, _ = load_model(folder)
        batches = kind.batches(model, examples.dev, 64)
        for _ in range(2):
            start = time.perf_counter()
            predict_batches(kind, model, batches, examples.dev)
            seconds = time.perf_counter() - start
    keras.utils.clear_session()
    return {
        "task": config.task,
        "elmo": has_elmo,
        "training": num_tokens(kind, examples.train) / record["epochs"][1]["seconds"],
        "prediction": num_tokens(kind, examples.dev) / seconds,
    }


def num_tokens(kind, examples):
    """Tokens of all texts of the examples."""
    return sum(len(tokens) for example in examples for tokens in kind.texts(example))


if __name__ == "__main__":
    main()
