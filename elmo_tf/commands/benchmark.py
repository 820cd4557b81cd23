"""The subcommand `benchmark`: a biLM ─► its speed on this machine."""

import re
from collections.abc import Mapping
from typing import Any

from elmo_tf.commands.options import Model, ResultFormat, markdown_table, print_results


def benchmark(model: Model, /, *, format: ResultFormat = None) -> None:
    """Measure how fast a biLM embeds on this machine, in float32 and bfloat16."""
    from elmo_tf.evaluation.speed import measure_speed
    from elmo_tf.processors import CPU_INFO, num_cores

    found = re.search(r"^model name\s*: (.*)", CPU_INFO.read_text(), re.MULTILINE)
    processor = found[1] if found else ""  # not named on ARM
    about = {"processor": processor, "cores": num_cores(), "precisions": measure_speed(model)}
    print_results(about, lambda: _table(about), format)


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
