"""Embeds given sentences with simple_elmo, the TensorFlow 1 peer; see `embed.py`.

Runs in an interpreter that has `simple_elmo` and `tf-keras`, with TF_USE_LEGACY_KERAS=1. Called as
its documentation says, it makes a session, and reads the first batch twice, at every call.
"""

import logging

from contending import obey, sentence_groups
from simple_elmo import ElmoModel

_BATCH = 64


def main() -> None:
    """Loads the model, and obeys."""
    groups, arguments = sentence_groups()
    model = ElmoModel()
    logging.disable(logging.INFO)
    model.load(arguments.checkpoint, max_batch_size=_BATCH)

    def step(index: int) -> float:
        sentences = sorted(groups[index], key=len)
        return float(model.get_elmo_vectors(sentences, layers="all")[0, 0, 0, 0])

    obey(step, len(groups))


if __name__ == "__main__":
    main()
