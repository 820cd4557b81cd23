"""Embeds given sentences with elmo_tf whenever it is told to; see `embed.py`."""

import argparse
import json
from pathlib import Path

from contending import obey

from elmo_tf import Embedder


def main() -> None:
    """Loads the model, and obeys."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sentences")
    parser.add_argument("checkpoint")
    parser.add_argument("precision")
    parser.add_argument("batch_tokens", type=int)
    arguments = parser.parse_args()
    groups = json.loads(Path(arguments.sentences).read_text(encoding="utf-8"))
    embedder = Embedder(
        arguments.checkpoint, precision=arguments.precision, batch_tokens=arguments.batch_tokens
    )

    def step(index: int) -> float:
        return float(sum(vectors[0, 0, 0] for vectors in embedder.embed(groups[index])))

    obey(step, len(groups))


if __name__ == "__main__":
    main()
