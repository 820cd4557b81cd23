import json
import random
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_original_size_with_800_000_tokens_needs_at_most_7_gb(tmp_path):
    """One (800,000, 512) table is 1.6 GB; Adagrad has a second one."""
    draw = random.Random(1)
    words = [f"w{number}" for number in range(799_997)]
    lines = [
        " ".join(words[min(int(draw.paretovariate(0.3)), len(words) - 1)] for _ in range(20))
        for _ in range(200)
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *words]) + "\n")
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    arguments = "train --corpus text.txt --vocab vocab.txt --workdir run --preset original"
    arguments += " --recipe paper --steps 3 --batch-size 32 --save-every 2"
    code = (
        "import json, resource, subprocess, sys;"
        "status = subprocess.run([sys.executable, '-m', 'elmo_tf.cli', *sys.argv[1:]]).returncode;"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss;"
        "print(json.dumps([status, peak]))"
    )
    # In a separate process: RUSAGE_CHILDREN then measures only this run.
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments.split()],
        cwd=tmp_path,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    status, peak = json.loads(result.stdout.splitlines()[-1])
    assert status == 0
    assert peak * 1024 < 7e9  # Linux counts KiB
