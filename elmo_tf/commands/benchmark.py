"""The subcommand `benchmark`: a biLM ─► its speed on this machine."""

import os
from collections.abc import Mapping
from typing import Any

from elmo_tf.commands.options import Model, ResultFormat, markdown_table, print_results


def benchmark(model: Model, /, *, format: ResultFormat = None) -> None:
    """Measure how fast a biLM embeds on this machine, in float32 and bfloat16."""
    from elmo_tf.evaluation.speed import measure_speed
    from elmo_tf.processors import num_cores

    speeds = measure_speed(model)
    about = {"processor": _processor(), "cores": num_cores(), "precisions": speeds}
    print_results(about, lambda: _table(about), format)


def _processor() -> str:
    """The name of the processor; empty if unknown."""
    if not os.path.exists("/proc/cpuinfo"):
        return ""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        return next(names, "")


def _table(about: Mapping[str, Any]) -> str:
    rows = {
        "product_gflops": "plain products of matrices, GFLOP/s",
        "words_per_second": "new words, per second",
        "tokens_per_second": "sentences of 20 tokens, tokens/s",
        "share": "LSTM products, share of the rate of plain products",
        "document_tokens_per_second": "a document of 2,000 tokens, tokens/s",
        "milliseconds": "one sentence of 20 tokens, ms",
    }
    layouts = {"share": "{:.0%}", "milliseconds": "{:.1f}"}
    precisions = about["precisions"]
    table = [
        [name, *(layouts.get(key, "{:,.0f}").format(speed[key]) for speed in precisions.values())]
        for key, name in rows.items()
    ]
    title = f"{about['processor'] or 'this machine'}, {about['cores']} cores"
    return markdown_table([title, *precisions], table)
