"""Named entities, or parts of speech: a CRF tagger over words, characters and ELMo.

    python examples/tag_tokens.py --train train.conll --dev dev.conll --scheme BIO
    python examples/tag_tokens.py --train train.conllu --dev dev.conllu

The extra `tasks` of elmo_tf brings what keeps the score. `elmo-tf task train` does more: batches of
like length, layers that are kept, restart.
"""

import argparse

import keras
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.evaluation.task_scores import span_scores, tag_scores
from elmo_tf.tasks import CharacterEmbedding, CRFTagger, WordEmbedding
from elmo_tf.tasks.data.tagged_sentences import TaggedSentence, read_tagged


def new_tagger(train: list[TaggedSentence], elmo: Elmo, scheme: str | None) -> CRFTagger:
    """A tagger for the words and tags of some sentences."""
    tags = sorted({tag for _, tags in train for tag in tags})
    words = WordEmbedding.from_texts((tokens for tokens, _ in train), 50)
    embeddings = [words, CharacterEmbedding()]
    return CRFTagger(tags, embeddings, elmo, scheme=scheme)


def as_tensors(tagger: CRFTagger, sentences: list[TaggedSentence]) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokens padded with "", and places of their tags, padded with -1."""
    tokens = tf.ragged.constant([tokens for tokens, _ in sentences])
    tags = tf.ragged.constant([tagger.label_ids(tags) for _, tags in sentences])
    return tokens.to_tensor(""), tags.to_tensor(-1)


def main() -> None:
    """Trains a tagger, and tells its score on held-out sentences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True, metavar="FILE", help="CoNLL columns, or CoNLL-U")
    parser.add_argument("--dev", required=True, metavar="FILE", help="the same")
    parser.add_argument("--scheme", choices=("BIO", "IOB1"), help="of tags that mark spans")
    parser.add_argument("--elmo", default="small-en", help="a checkpoint (small-en)")
    parser.add_argument("--epochs", type=int, default=10, help="(10)")
    arguments = parser.parse_args()
    train, dev = (
        read_tagged(file, scheme=arguments.scheme) for file in (arguments.train, arguments.dev)
    )
    scheme = "BIO" if arguments.scheme else None  # in which spans are read, whatever the file's
    tagger = new_tagger(train, Elmo.from_pretrained(arguments.elmo), scheme)
    tagger.compile(keras.optimizers.Adam(0.001, global_clipnorm=5.0))
    tagger.fit(*as_tensors(tagger, train), batch_size=32, epochs=arguments.epochs, verbose=2)

    predicted = tagger.tag([tokens for tokens, _ in dev])
    score = span_scores if scheme else tag_scores
    print(score([tags for _, tags in dev], predicted))


if __name__ == "__main__":
    main()
