"""Embeds given sentences with simple_elmo, the TensorFlow 1 peer; see `embed.py`.

Runs in an interpreter that has `simple_elmo` and `tf-keras`, with TF_USE_LEGACY_KERAS=1.
"""

import argparse
import json
import logging
from pathlib import Path

import tensorflow as tf
from contending import obey
from simple_elmo import ElmoModel

_BATCH = 64


def main() -> None:
    """Loads the model, and obeys."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sentences")
    parser.add_argument("checkpoint")
    arguments = parser.parse_args()
    groups = json.loads(Path(arguments.sentences).read_text(encoding="utf-8"))
    model = ElmoModel()
    logging.disable(logging.INFO)
    model.load(arguments.checkpoint, max_batch_size=_BATCH)
    first = sorted(groups[0], key=len)[:_BATCH]
    model.get_elmo_vectors(first[:2], warmup=False, layers="all")  # makes the operation
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())

        def step(index: int) -> float:
            sentences = sorted(groups[index], key=len)
            total = 0.0
            for start in range(0, len(sentences), _BATCH):
                batch = sentences[start : start + _BATCH]
                total += float(
                    model.get_elmo_vectors(batch, warmup=False, layers="all", session=session)[
                        0, 0, 0, 0
                    ]
                )
            return total

        obey(step, len(groups))


if __name__ == "__main__":
    main()
