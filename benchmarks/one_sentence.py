"""Measures the time of one sentence: of the LSTMs' loops alone, and of three ways to its vectors.

    python benchmarks/one_sentence.py --corpus 'text/*.txt'

The loops are those of all LSTMs for one row of made-up token vectors. `Embedder.embed` has the
token vectors of the sentence in its cache; `BiLM` and the embedded server (gRPC, one client) encode
its tokens. All run in this process, in alternation. Prints the medians in milliseconds, and their
ratios to the loops.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from elmo_tf import BiLM, Embedder, load_bilm
from elmo_tf.commands.options import markdown_table
from elmo_tf.saved_models import Client, export, serve
from elmo_tf.text.corpus import read_sentences
from elmo_tf.text.reading import text_files

_WARM_UP = 5  # calls


def main() -> None:
    """Prints a table with a row for each length."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument("--model", default="small-en", help="default: small-en")
    parser.add_argument("--lengths", nargs="+", type=int, default=[5, 20, 60], metavar="TOKENS")
    parser.add_argument("--calls", type=int, default=40, metavar="N", help="default: 40")
    arguments = parser.parse_args()
    bilm, embedder = load_bilm(arguments.model), Embedder(arguments.model)
    tokens = itertools.chain.from_iterable(read_sentences(text_files(arguments.corpus)))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        export(bilm, folder)
        with (
            serve(folder, port=0, rest_port=0) as server,
            Client(f"localhost:{server.port}") as client,
        ):
            for length in arguments.lengths:
                sentence = " ".join(itertools.islice(tokens, length))
                ways = {
                    "loops": _loops(bilm, length),
                    "Embedder.embed": lambda s=sentence: list(embedder.embed([s])),
                    "BiLM": lambda s=sentence: bilm([s])["layers"].numpy(),
                    "server": lambda s=sentence: client.predict([s]),
                }
                medians = _medians(list(ways.values()), arguments.calls)
                ratios = [f"{median:.1f} ({median / medians[0]:.2f})" for median in medians[1:]]
                rows.append([str(length), f"{medians[0]:.1f}", *ratios])
    print(markdown_table(["tokens", *ways], rows, text_columns=0))


def _loops(bilm: BiLM, num_tokens: int) -> Callable[[], list]:
    """The recurrence of all layers and directions, including the boundaries, as one graph."""
    width = bilm.config.lstm.projection_dim

    @tf.function(input_signature=[tf.TensorSpec((1, None, width))], autograph=False)
    def loops(vectors):
        return [stack(vectors)[0][-1] for stack in bilm.lstm_stacks]

    vectors = tf.random.normal((1, num_tokens + 2, width), stddev=0.3, seed=0)
    return lambda: [outputs.numpy() for outputs in loops(vectors)]


def _medians(ways: Sequence[Callable[[], object]], num_calls: int) -> list[float]:
    seconds = [[] for _ in ways]
    for number in range(_WARM_UP + num_calls):
        for times, call in zip(seconds, ways, strict=True):
            start = time.perf_counter()
            call()
            if number >= _WARM_UP:
                times.append(time.perf_counter() - start)
    return [1000 * statistics.median(times) for times in seconds]


if __name__ == "__main__":
    main()
