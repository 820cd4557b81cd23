"""Embeds sentences with one library; a worker of `embed.py`.

    GROUP=1 python embed_worker.py LIBRARY SENTENCES CHECKPOINT [PRECISION]

Prints the seconds of the first call after a warm-up, on the sentences of a group, and the peak
memory of the process. Runs in the interpreter that has the library: `allennlp` needs Python 3.9.
"""

import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

_PEER_BATCH = 64  # sentences


def elmo_tf(checkpoint: str, precision: str) -> Callable:
    """Embeds with elmo_tf."""
    from elmo_tf import Embedder

    embedder = Embedder(checkpoint, precision=precision)
    return lambda sentences: sum(vectors[0, 0, 0] for vectors in embedder.embed(sentences))


def simple_elmo(checkpoint: str) -> Callable:
    """Embeds with the TensorFlow 1 peer, as documented.

    Each call makes a session and reads the first batch twice.
    """
    from simple_elmo import ElmoModel

    model = ElmoModel()
    logging.disable(logging.INFO)
    model.load(checkpoint, max_batch_size=_PEER_BATCH)
    return lambda sentences: model.get_elmo_vectors(sorted(sentences, key=len), layers="all")[
        0, 0, 0, 0
    ]


def allennlp(checkpoint: str) -> Callable:
    """Embeds with the PyTorch peer."""
    import torch
    from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

    folder = Path(checkpoint)
    bilm = _ElmoBiLm(str(folder / "options.json"), str(folder / "weights.hdf5"))
    bilm.eval()

    def embed(sentences: list) -> float:
        sentences, total = sorted(sentences, key=len), 0.0
        with torch.no_grad():
            for start in range(0, len(sentences), _PEER_BATCH):
                layers = bilm(batch_to_ids(sentences[start : start + _PEER_BATCH]))["activations"]
                total += sum(float(layer[0, 0, 0]) for layer in layers)
        return total

    return embed


if __name__ == "__main__":
    library, sentences, *settings = sys.argv[1:]
    embed = {"elmo_tf": elmo_tf, "simple_elmo": simple_elmo, "allennlp": allennlp}[library](
        *settings
    )
    groups = json.loads(Path(sentences).read_text(encoding="utf-8"))
    float(embed(groups[0]))
    start = time.perf_counter()
    float(embed(groups[int(os.environ["GROUP"])]))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
    print(json.dumps({"seconds": seconds, "peak_mib": peak}))
