"""The semantic role tagger: a sentence without padding and its predicate ─► scores ─► tags.

Weights are named by the layers that hold them.
"""

import numpy as np

from reference import cells
from reference.task_models import softmax


def scores(vectors, output, predicate, weights):
    """(token, feature) ─► (token, label). `output` is ELMo above the LSTMs, or None."""
    other, own = weights["predicate_embedding/kernel"]
    flags = [own if token == predicate else other for token in range(len(vectors))]
    hidden = np.concatenate([vectors, flags], axis=-1)
    layer = 0
    while f"lstm_{layer}/kernel" in weights:
        order = slice(None, None, -1 if layer % 2 else 1)
        of_cell = {
            name: weights[f"lstm_{layer}/{name}"] for name in ("kernel", "bias", "recurrent_kernel")
        }
        hidden = cells.sequence("highway_lstm", hidden[order], **of_cell)[order]
        layer += 1
    if output is not None:
        hidden = np.concatenate([hidden, output], axis=-1)
    return hidden @ weights["scores/kernel"] + weights["scores/bias"]


def loss(scores, tags):
    """The loss of one sentence; `tags` are label indices."""
    return -sum(np.log(softmax(row)[tag]) for row, tag in zip(scores, tags, strict=True))
