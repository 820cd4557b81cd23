"""Trains a sentiment classifier (BCN) on word vectors and ELMo.

    python examples/classify_sentences.py --train train.txt --dev dev.txt

`elmo-tf task train` also caches the biLM's layers and resumes.
"""

import argparse

import keras

from elmo_tf import Elmo
from elmo_tf.tasks import BCN, WordEmbedding
from elmo_tf.tasks.classification import LabeledText, read_sentiment
from elmo_tf.tasks.scores import label_scores


def new_classifier(train: list[LabeledText], elmo: Elmo) -> BCN:
    """Returns a classifier for the words and labels of `train`, with ELMo at input and output."""
    words = WordEmbedding.from_texts((tokens for tokens, _ in train), 50)
    labels = sorted({label for _, label in train})
    return BCN(labels, [words], elmo, placement="both", units=100)


def main() -> None:
    """Trains a classifier and prints its score on held-out sentences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--train", required=True, metavar="FILE", help="one bracketed tree per line"
    )
    parser.add_argument("--dev", required=True, metavar="FILE", help="held-out trees")
    parser.add_argument("--elmo", default="small-en", help="checkpoint (default: small-en)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs (default: 5)")
    arguments = parser.parse_args()
    train, dev = (read_sentiment(file) for file in (arguments.train, arguments.dev))
    model = new_classifier(
        train, Elmo.from_pretrained(arguments.elmo, num_mixes=2, l2=0.001, dropout=0.0)
    )
    model.compile(keras.optimizers.Adam(0.001, global_clipnorm=5.0))
    model.fit(
        [tokens for tokens, _ in train],
        [label for _, label in train],
        batch_size=32,
        epochs=arguments.epochs,
        verbose=2,
    )

    predicted = model.classify([tokens for tokens, _ in dev])
    print(label_scores([label for _, label in dev], predicted))


if __name__ == "__main__":
    main()
