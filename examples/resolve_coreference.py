"""Trains a coreference model on word vectors and ELMo.

    python examples/resolve_coreference.py --train train/*.conll --dev dev/*.conll

Requires the extra `tasks`: pip install '.[tasks]'
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.tasks import CoreferenceModel, WordEmbedding
from elmo_tf.tasks.coreference import Document, read_documents
from elmo_tf.tasks.scores import coreference_scores


def new_model(train: list[Document], elmo: Elmo) -> CoreferenceModel:
    """Returns a model for the words of `train`."""
    words = WordEmbedding.from_texts((tokens for one in train for tokens in one.sentences), 50)
    return CoreferenceModel([words], elmo, units=100, span_ratio=0.25, max_antecedents=100)


def tokens_of(document: Document) -> tf.Tensor:
    """The tokens of a document, string (sentence, token) padded with ""."""
    return tf.ragged.constant(document.sentences).to_tensor("")


def steps(documents: Sequence[Document]) -> Iterator[tuple[Any, Any]]:
    """Each document with its mentions: int (mention, 3), first token, last token and entity."""
    for document in documents:
        mentions = [
            (first, last, number)
            for number, entity in enumerate(document.entities)
            for first, last in entity
        ]
        yield tokens_of(document), tf.reshape(tf.constant(mentions, tf.int32), (-1, 3))


def main() -> None:
    """Trains a model and prints its scores on held-out documents."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True, nargs="+", metavar="FILE", help="CoNLL columns")
    parser.add_argument("--dev", required=True, nargs="+", metavar="FILE", help="held-out columns")
    parser.add_argument("--elmo", default="small-en", help="checkpoint (default: small-en)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs (default: 5)")
    arguments = parser.parse_args()
    train, dev = (
        [document for file in files for document in read_documents(file)]
        for files in (arguments.train, arguments.dev)
    )
    model = new_model(train, Elmo.from_pretrained(arguments.elmo, l2=0.1))
    model.compile(keras.optimizers.Adam(0.001, global_clipnorm=5.0))
    dataset = tf.data.Dataset.from_generator(
        lambda: steps(train),
        output_signature=(
            tf.TensorSpec((None, None), tf.string),
            tf.TensorSpec((None, 3), tf.int32),
        ),
    )
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(train)))
    dataset = dataset.shuffle(len(train))
    model.fit(dataset, epochs=arguments.epochs, shuffle=False, verbose=2)

    found = [model.entities(tokens_of(document)) for document in dev]
    print(coreference_scores([document.entities for document in dev], found))


if __name__ == "__main__":
    main()
