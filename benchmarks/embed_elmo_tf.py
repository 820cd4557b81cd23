"""Embeds given sentences with elmo_tf whenever it is told to; see `embed.py`."""

from contending import obey, sentence_groups

from elmo_tf import Embedder
from elmo_tf.threads import share_cores_for_embedding


def main() -> None:
    """Loads the model, and obeys."""
    groups, arguments = sentence_groups("precision", "batch_tokens")
    share_cores_for_embedding()  # as the command `elmo-tf embed` does
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
