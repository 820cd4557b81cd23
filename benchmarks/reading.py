"""Measures how fast the text of a training run is counted and cut into windows.

    python benchmarks/reading.py --corpus 'text/*.txt'

The workers of a run all do the same work, so of N workers only the first one runs: it cuts windows
of its batch rows until the time is over. Prints one JSON object per number of workers: windows per
second, tokens per second of all rows together, and microseconds of processor time per window.
"""

import argparse
import json
import time

from elmo_tf.text.corpus import line_dataset
from elmo_tf.text.counting import count_text
from elmo_tf.text.reading import text_files
from elmo_tf.text.windows import LMWindows


def main() -> None:
    """Measures all numbers of workers."""
    arguments = _parse()
    files = text_files(arguments.corpus)
    start = time.perf_counter()
    tokens = count_text(files).tokens
    rate = round(tokens / (time.perf_counter() - start))
    print(json.dumps({"counted_tokens_per_second": rate}), flush=True)
    for num_workers in arguments.workers:
        rows = slice(arguments.batch_size // num_workers)
        lines = line_dataset(files, seed=0).repeat()
        windows = LMWindows(lines, arguments.batch_size, arguments.unroll, rows=rows)
        _cut(windows, arguments.seconds / 4)  # fills the shuffle buffer
        count, seconds, processor_seconds = _cut(windows, arguments.seconds)
        result = {
            "workers": num_workers,
            "windows_per_second": round(count / seconds, 1),
            "tokens_per_second": round(count * arguments.batch_size * arguments.unroll / seconds),
            "processor_microseconds_per_window": round(processor_seconds / count * 1e6),
        }
        print(json.dumps(result), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument(
        "--workers",
        nargs="+",
        type=int,
        default=[1, 2, 4, 8],
        metavar="N",
        help="numbers of workers",
    )
    for name, default, help in (
        ("batch-size", 64, "batch rows of all workers"),
        ("unroll", 20, "tokens per row and window"),
        ("seconds", 20, "duration of each measurement"),
    ):
        help = f"{help} (default: {default})"
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=help)
    return parser.parse_args()


def _cut(windows: LMWindows, seconds: float) -> tuple[int, float, float]:
    """Returns the number of windows, their seconds, and those of all processor cores."""
    count, start, start_of_processor = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        next(windows)
        count += 1
    return count, time.perf_counter() - start, time.process_time() - start_of_processor


if __name__ == "__main__":
    main()
