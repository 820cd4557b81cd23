"""The examples for other runtimes compute the vectors of `Embedder` without TensorFlow."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmo_tf import Embedder, saved_models

EXAMPLES = Path(__file__).parents[2] / "examples"
SENTENCES = ["The cat naïve at", "", "a" * 60, *(" ".join(["two"] * n) for n in range(32))]


@pytest.mark.more
@pytest.mark.parametrize("format", ["onnx", "litert"])
def test_vectors(bilm, tmp_path, format):
    path = saved_models.export(bilm, tmp_path / "exported", format=format)
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES) + "\n", "utf-8")
    for name in ("tensorflow", "keras", "elmo_tf"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name}')")
    subprocess.run(
        [sys.executable, EXAMPLES / format / "embed.py", path, "text.txt", "vectors.npz"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    with np.load(tmp_path / "vectors.npz") as vectors:
        expected = Embedder(bilm, layers="average").embed(SENTENCES)
        for actual, expected_vectors in zip(vectors.values(), expected, strict=True):
            np.testing.assert_allclose(actual, expected_vectors, atol=1e-5)
