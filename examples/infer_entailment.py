"""Trains an entailment model (ESIM) on word vectors and ELMo.

    python examples/infer_entailment.py --train train.jsonl --dev dev.jsonl

`elmo-tf task train` also caches the biLM's layers and resumes.
"""

import argparse

import keras

from elmo_tf import Elmo
from elmo_tf.tasks import ESIM, WordEmbedding
from elmo_tf.tasks.entailment import LabeledPair, read_pairs
from elmo_tf.tasks.scores import label_scores


def new_model(train: list[LabeledPair], elmo: Elmo) -> ESIM:
    """Returns a model for the words and labels of `train`."""
    both = (tokens for pair in train for tokens in (pair.premise, pair.hypothesis))
    words = WordEmbedding.from_texts(both, 50)
    labels = sorted({pair.label for pair in train})
    return ESIM(labels, [words], elmo, units=100)


def texts(pairs: list[LabeledPair]) -> dict[str, list[list[str]]]:
    """The tokens of the premises and of the hypotheses."""
    return {name: [getattr(pair, name) for pair in pairs] for name in ESIM.texts}


def main() -> None:
    """Trains a model and prints its score on held-out pairs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True, metavar="FILE", help="JSON lines, as in SNLI")
    parser.add_argument("--dev", required=True, metavar="FILE", help="held-out pairs")
    parser.add_argument("--elmo", default="small-en", help="checkpoint (default: small-en)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs (default: 5)")
    arguments = parser.parse_args()
    train, dev = (read_pairs(file) for file in (arguments.train, arguments.dev))
    model = new_model(train, Elmo.from_pretrained(arguments.elmo, l2=0.001, dropout=0.0))
    model.compile(keras.optimizers.Adam(0.0004, global_clipnorm=5.0))
    labels = [pair.label for pair in train]
    model.fit(texts(train), labels, batch_size=32, epochs=arguments.epochs, verbose=2)

    predicted = model.classify(texts(dev))
    print(label_scores([pair.label for pair in dev], predicted))


if __name__ == "__main__":
    main()
