"""Trains a model of semantic roles (SRLTagger) on word vectors and ELMo.

    python examples/label_roles.py --train train.gold_conll --dev dev.gold_conll

`elmo-tf task train` also caches the biLM's layers and resumes.
"""

import argparse

import keras

from elmo_tf import Elmo
from elmo_tf.tasks import SRLTagger, WordEmbedding
from elmo_tf.tasks.scores import role_scores
from elmo_tf.tasks.semantic_roles import Proposition, read_propositions


def new_model(train: list[Proposition], elmo: Elmo) -> SRLTagger:
    """Returns a model for the words and roles of `train`."""
    words = WordEmbedding.from_texts((one.tokens for one in train), 50)
    roles = sorted({tag[2:] for one in train for tag in one.tags if tag != "O"})
    labels = ["O", *(f"{letter}-{role}" for role in roles for letter in "BI")]
    return SRLTagger(labels, [words], elmo, units=100, num_layers=4)


def inputs(propositions: list[Proposition]) -> dict[str, list]:
    """The tokens, and the indices of the predicates."""
    return {name: [getattr(one, name) for one in propositions] for name in ("tokens", "predicate")}


def main() -> None:
    """Trains a model and prints its scores on held-out propositions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True, metavar="FILE", help="columns with roles")
    parser.add_argument("--dev", required=True, metavar="FILE", help="held-out columns")
    parser.add_argument("--elmo", default="small-en", help="checkpoint (default: small-en)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs (default: 5)")
    arguments = parser.parse_args()
    train, dev = (
        [one for one in read_propositions(file) if one.predicate is not None]
        for file in (arguments.train, arguments.dev)
    )
    model = new_model(train, Elmo.from_pretrained(arguments.elmo, l2=0.001, dropout=0.1))
    model.compile(keras.optimizers.Adam(0.001, global_clipnorm=1.0))
    tags = [one.tags for one in train]
    model.fit(inputs(train), tags, batch_size=64, epochs=arguments.epochs, verbose=2)

    predicted = model.tag(inputs(dev))
    scores = role_scores([one.tags for one in dev], predicted)
    print({name: scores[name] for name in ("precision", "recall", "f1")})


if __name__ == "__main__":
    main()
