"""A corpus of a few hundred sentences with a simple grammar, and runs over it.

Runs with simple losses trace quickly; they test everything but the model. `real_settings` are for
the losses of the language model.
"""

import contextlib
import random
import shutil

import pytest

from elmo_tf import Vocabulary
from reference.checkpoint import options
from runs import run_of

SUBJECTS = ("the cat", "a dog", "my neighbor", "the old river")
VERBS = ("sees", "likes", "follows")
OPTIONS = options(
    filters=((1, 3), (2, 5)), n_highway=1, dim=13, projection_dim=7, cell_clip=3.0, proj_clip=3.0
)


@pytest.fixture(scope="session")
def replace_losses():
    """A context manager that replaces the losses by functions of all weights, states and inputs.

    The rest of a run is real: streams, optimizer, carried states, random numbers, saves.
    """
    import tensorflow as tf

    from elmo_tf.trainers.steps import TrainStep

    def losses(self, inputs, targets, seed):
        states = tf.nest.map_structure(tf.identity, self.states)
        text = tf.cast(tf.strings.to_hash_bucket_fast(inputs, 97), tf.float32) / 97
        size = tf.add_n([tf.reduce_mean(tf.square(weight)) for weight in self.trainable])
        # States are bfloat16 in mixed precision.
        values = [tf.cast(state, tf.float32) for state in tf.nest.flatten(states)]
        carried = tf.add_n(list(map(tf.reduce_mean, values)))
        noise = tf.random.stateless_uniform([2], seed)
        means = tf.reduce_mean(text, axis=(1, 2))  # (direction,)
        mean = tf.reduce_mean(text)
        new = tf.nest.map_structure(lambda state: state / 2 + tf.cast(mean, state.dtype), states)
        return size * (1 + means) + carried + noise, new

    @contextlib.contextmanager
    def replaced():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TrainStep, "_losses", losses)
            yield

    return replaced


@pytest.fixture
def simple_losses(replace_losses):
    with replace_losses():
        yield


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Files `train_1.txt`, `train_2.txt` and `valid.txt`, and a vocabulary that lacks one word."""
    folder = tmp_path_factory.mktemp("text")
    for seed, (name, count) in enumerate((("train_1", 150), ("train_2", 90), ("valid", 20))):
        draw = random.Random(seed)
        lines = [
            f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(SUBJECTS)} .\n"
            for _ in range(count)
        ]
        (folder / f"{name}.txt").write_text("".join(lines))
    tokens = Vocabulary.build([folder / "train_1.txt"]).tokens
    Vocabulary(token for token in tokens if token != "old").save(folder / "vocab.txt")
    return folder


@pytest.fixture(scope="session")
def settings(text):
    """Arguments of a `PretrainConfig`, without the work directory.

    The 60 steps read the 1,790 tokens of the corpus two and a half times.
    """
    return {
        "recipe": "paper",
        "corpus": str(text / "train_*.txt"),
        "vocab": text / "vocab.txt",
        "options": OPTIONS,
        "steps": 60,
        "batch_size": 3,
        "unroll": 25,
        "num_sampled": 6,
        "save_every": 25,
        "ema": 0.9,
    }


@pytest.fixture(scope="session")
def real_settings(settings, text):
    return {**settings, "valid": str(text / "valid.txt"), "unroll": 5, "ema": 0.0}


@pytest.fixture(scope="session")
def run(tmp_path_factory, settings, replace_losses):
    """A run with simple losses, and its files as a kill after step 40 would leave them."""
    folder = tmp_path_factory.mktemp("runs")
    with replace_losses():
        return run_of(settings, folder / "whole", {41: folder / "killed"})


@pytest.fixture
def interrupted(tmp_path, run):
    """The work directory of the killed run, which a test can resume: steps 26 to 60 remain."""
    return shutil.copytree(run.copies[41], tmp_path / "interrupted")
