"""Embeds or trains with one library; a process of `speed.py`.

    python contenders.py CONTENDER FOLDER ROUND [PRECISION]

Runs the warm-up, round 0, then the given round, and prints its seconds and the peak memory of the
process. Runs in the interpreter that has the library: `allennlp` needs Python 3.9.
"""

import json
import logging
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

_PEER_BATCH = 64  # sentences


def embed_elmo_tf(folder: Path, precision: str) -> Callable:
    """Embeds with elmo_tf."""
    from elmo_tf import Embedder

    embedder = Embedder(folder, precision=precision)
    return lambda sentences: sum(vectors[0, 0, 0] for vectors in embedder.embed(sentences))


def embed_simple_elmo(folder: Path) -> Callable:
    """Embeds with the TensorFlow 1 peer, as documented.

    Each call makes a session and reads the first batch twice.
    """
    from simple_elmo import ElmoModel

    model = ElmoModel()
    logging.disable(logging.INFO)
    model.load(str(folder), max_batch_size=_PEER_BATCH)
    return lambda sentences: model.get_elmo_vectors(sorted(sentences, key=len), layers="all")[
        0, 0, 0, 0
    ]


def embed_allennlp(folder: Path) -> Callable:
    """Embeds with the PyTorch peer."""
    import torch
    from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

    bilm = _ElmoBiLm(str(folder / "options.json"), str(folder / "weights.hdf5"))
    bilm.eval()

    def embed(sentences: list) -> float:
        sentences, total = sorted(sentences, key=len), 0.0
        with torch.no_grad():
            for start in range(0, len(sentences), _PEER_BATCH):
                layers = bilm(batch_to_ids(sentences[start : start + _PEER_BATCH]))["activations"]
                total += sum(float(layer[0, 0, 0]) for layer in layers)
        return total

    return embed


def train_elmo_tf(folder: Path, precision: str) -> Callable:
    """Trains with elmo_tf."""
    import numpy as np
    import tensorflow as tf

    from elmo_tf.config import BiLMConfig
    from elmo_tf.models.language_model import LanguageModel
    from elmo_tf.text.vocabulary import Vocabulary
    from elmo_tf.trainers.optimizers import Adagrad
    from elmo_tf.trainers.steps import TrainStep

    config = BiLMConfig.from_options(folder / "options.json")
    peer = json.loads((folder / "peer.json").read_text())
    with np.load(folder / "windows.npz") as file:
        inputs, targets = tf.constant(file["inputs"]), tf.constant(file["targets"])
    vocabulary, num_sampled = (
        Vocabulary.load(folder / "vocab.txt"),
        peer["n_negative_samples_batch"],
    )
    model = LanguageModel.create(config, vocabulary, num_sampled, dtype=precision)
    step = TrainStep(model, Adagrad(0.2), peer["batch_size"], dropout=0.1, clip_norm=10.0, seed=0)

    def train(indices: list) -> None:
        for index in indices:
            float(step(inputs[index], targets[index])["loss"])

    return train


def train_simple_elmo(folder: Path) -> Callable:
    """Trains with the TensorFlow 1 peer: the step of `simple_elmo.training.train` on one device."""
    import numpy as np
    import tensorflow as tf
    from simple_elmo.training import LanguageModel, clip_grads

    tf1 = tf.compat.v1
    options = json.loads((folder / "peer.json").read_text())
    with np.load(folder / "windows.npz") as file:
        char_ids, target_ids = file["char_ids"], file["target_ids"]
    tf1.disable_eager_execution()
    with tf1.variable_scope("lm"):
        model = LanguageModel(options, True)
    optimizer = tf1.train.AdagradOptimizer(
        learning_rate=options["learning_rate"], initial_accumulator_value=1.0
    )
    gradients = optimizer.compute_gradients(
        model.total_loss * options["unroll_steps"],
        aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE,
    )
    gradients, _ = clip_grads(gradients, options, False, None)
    step = optimizer.apply_gradients(gradients)
    session = tf1.Session()
    session.run(tf1.global_variables_initializer())
    initial = tf.nest.flatten(model.init_lstm_state)
    final = tf.nest.flatten(model.final_lstm_state)
    states = [np.zeros(state.shape, np.float32) for state in initial]

    def train(indices: list) -> None:
        for index in indices:
            feeds = {
                model.tokens_characters: char_ids[index, 0],
                model.tokens_characters_reverse: char_ids[index, 1],
                model.next_token_id: target_ids[index, 0],
                model.next_token_id_reverse: target_ids[index, 1],
                **dict(zip(initial, states, strict=True)),
            }
            _, _, *states[:] = session.run([step, model.total_loss, *final], feeds)

    return train


if __name__ == "__main__":
    contender, folder, number, *precision = sys.argv[1:]
    run = globals()[contender](Path(folder), *precision)
    rounds = json.loads(Path(folder, "rounds.json").read_text(encoding="utf-8"))
    run(rounds[0])
    start = time.perf_counter()
    run(rounds[int(number)])
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
    print(json.dumps({"seconds": seconds, "peak_mib": peak}))
