"""Embeds given sentences with allennlp, the PyTorch peer; see `embed.py`.

Runs in an interpreter of Python 3.9 that has `allennlp==2.10.1` and `numpy<1.24`.
"""

from pathlib import Path

import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from contending import obey, sentence_groups

_BATCH = 64


def main() -> None:
    """Loads the model, and obeys."""
    groups, arguments = sentence_groups()
    folder = Path(arguments.checkpoint)
    bilm = _ElmoBiLm(str(folder / "options.json"), str(folder / "weights.hdf5"))
    bilm.eval()

    def step(index: int) -> float:
        sentences = sorted(groups[index], key=len)
        total = 0.0
        with torch.no_grad():
            for start in range(0, len(sentences), _BATCH):
                layers = bilm(batch_to_ids(sentences[start : start + _BATCH]))["activations"]
                total += sum(float(layer[0, 0, 0]) for layer in layers)
        return total

    obey(step, len(groups))


if __name__ == "__main__":
    main()
