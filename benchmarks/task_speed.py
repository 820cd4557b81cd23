"""Tokens per second of task models, in training and in prediction, with and without ELMo.

Each model has the settings of a study of `studies.py`. Two epochs are trained on a share of
the data, of which the second is timed, with cached layers of the biLM; then the held-out examples
are predicted from strings, twice, of which the second time counts.

    python benchmarks/task_speed.py --data DATA
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import keras
from studies import STUDIES, Run, settings_of

from elmo_tf.trainers.tasks.answering import predict_batches
from elmo_tf.trainers.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.kinds import KINDS
from elmo_tf.trainers.tasks.training import _read_examples, train_task
from elmo_tf.trainers.tasks.workdir import load_model


def main():
    """Prints one line of JSON per model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the data")
    parser.add_argument("--share", type=float, default=0.1, help="share of the training examples")
    parser.add_argument("--studies", nargs="+", default=[*STUDIES], choices=[*STUDIES])
    arguments = parser.parse_args()
    for study in arguments.studies:
        for variant in ("without", "with"):
            run = Run(study, variant, arguments.share, 0)
            print(json.dumps(measured(run, arguments.data)), flush=True)


def measured(run, data):
    """The tokens per second of one model."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {**settings_of(run, data, Path()), "epochs": 2, "cache_gb": 0}
        config = TaskConfig(**settings, workdir=folder, resume=True)
        kind = KINDS[config.task]
        examples = _read_examples(config, kind)
        record = train_task(config)
        model, _ = load_model(config.workdir)
        batches = kind.batches(model, examples.dev, 64)
        for _ in range(2):
            start = time.perf_counter()
            predict_batches(kind, model, batches, examples.dev)
            seconds = time.perf_counter() - start
    keras.utils.clear_session()
    return {
        "study": run.study,
        "variant": run.variant,
        "training": num_tokens(kind, examples.train) / record["epochs"][1]["seconds"],
        "prediction": num_tokens(kind, examples.dev) / seconds,
    }


def num_tokens(kind, examples):
    """Tokens of all texts of the examples."""
    return sum(len(tokens) for example in examples for tokens in kind.texts(example))


if __name__ == "__main__":
    main()
