"""Embeds given sentences with elmo_tf whenever it is told to; see `embed.py`."""

from contending import obey, sentence_groups

from elmo_tf import Embedder


def main() -> None:
    """Loads the model, and obeys."""
    groups, arguments = sentence_groups("precision", "batch_tokens")
    embedder = Embedder(
        arguments.checkpoint,
        precision=arguments.precision,
        batch_tokens=int(arguments.batch_tokens),
    )

    def step(index: int) -> float:
        return float(sum(vectors[0, 0, 0] for vectors in embedder.embed(groups[index])))

    obey(step, len(groups))


if __name__ == "__main__":
    main()
