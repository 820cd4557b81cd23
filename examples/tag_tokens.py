"""Trains a CRF tagger for named entities or parts of speech on words, characters and ELMo.

    python examples/tag_tokens.py --train train.conll --dev dev.conll --scheme BIO
    python examples/tag_tokens.py --train train.conllu --dev dev.conllu

`elmo-tf task train` also groups sentences by length, caches the biLM's layers and resumes.
"""

import argparse

import keras

from elmo_tf import Elmo
from elmo_tf.tasks import CharacterEmbedding, CRFTagger, WordEmbedding
from elmo_tf.tasks.scores import span_scores, tag_scores
from elmo_tf.tasks.tagging import TaggedSentence, read_tagged


def new_tagger(train: list[TaggedSentence], elmo: Elmo, scheme: str | None) -> CRFTagger:
    """Returns a tagger for the words and tags of `train`."""
    tags = sorted({tag for _, tags in train for tag in tags})
    words = WordEmbedding.from_texts((tokens for tokens, _ in train), 50)
    embeddings = [words, CharacterEmbedding()]
    return CRFTagger(tags, embeddings, elmo, scheme=scheme)


def main() -> None:
    """Trains a tagger and prints its score on held-out sentences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True, metavar="FILE", help="CoNLL columns or CoNLL-U")
    parser.add_argument("--dev", required=True, metavar="FILE", help="held-out sentences")
    parser.add_argument("--scheme", choices=("BIO", "IOB1"), help="tagging scheme of spans")
    parser.add_argument("--elmo", default="small-en", help="checkpoint (default: small-en)")
    parser.add_argument("--epochs", type=int, default=10, help="epochs (default: 10)")
    arguments = parser.parse_args()
    train, dev = (
        read_tagged(file, scheme=arguments.scheme) for file in (arguments.train, arguments.dev)
    )
    scheme = "BIO" if arguments.scheme else None  # the reader converts IOB1 to BIO
    tagger = new_tagger(train, Elmo.from_pretrained(arguments.elmo, dropout=0.0), scheme)
    tagger.compile(keras.optimizers.Adam(0.001, global_clipnorm=5.0))
    texts, tags = zip(*train, strict=True)
    tagger.fit(texts, tags, batch_size=32, epochs=arguments.epochs, verbose=2)

    predicted = tagger.tag([tokens for tokens, _ in dev])
    score = span_scores if scheme else tag_scores
    print(score([tags for _, tags in dev], predicted))


if __name__ == "__main__":
    main()
