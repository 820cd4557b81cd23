"""The input layers of a new task model: embeddings of words and characters, and ELMo."""

import collections
from collections.abc import Sequence

import keras

from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.embeddings import CharacterEmbedding, WordEmbedding, word_counts
from elmo_tf.tasks.word_vectors import read_word_vectors
from elmo_tf.text.sentence_files import is_utf_8

# Rarer words share one vector, so that this vector has training examples.
_MIN_COUNT = 2


def new_embeddings(
    config: TaskConfig, texts: Sequence[tuple[list[str], ...]]
) -> list[keras.layers.Layer]:
    """The embedding layers of a task model.

    Args:
        config: the settings of the run.
        texts: the texts of each training example.
    """
    layers: list[keras.layers.Layer] = []
    counts = word_counts((tokens for example in texts for tokens in example), config.lowercase)
    common = [word for word, count in counts.most_common() if count >= _MIN_COUNT]
    if config.word_vectors is not None:
        layers.append(_pretrained_words(config, counts, common))
    elif config.word_dim and common:
        layers.append(
            WordEmbedding(common, config.word_dim, lowercase=config.lowercase, name="words")
        )
    if config.characters:
        layers.append(CharacterEmbedding(name="characters"))
    return layers


def new_elmo(config: TaskConfig, bilm: BiLM | None) -> Elmo | None:
    """The ELMo layer of a task model, with one mix per place of concatenation."""
    return bilm and Elmo(
        bilm,
        num_mixes=2 if config.placement == "both" else 1,
        dropout=config.elmo_dropout,
        layer_norm=config.layer_norm,
        l2=config.mix_l2 if config.mix == "learned" else 0.0,
        trainable_bilm=config.fine_tune,
        top_only=config.mix == "top",
        average=config.mix == "average",
        name="elmo",
    )


def _pretrained_words(
    config: TaskConfig, counts: collections.Counter[str], common: Sequence[str]
) -> WordEmbedding:
    """Embeds the words of a vector file and the common words; the trained ones come first."""
    vectors = read_word_vectors(config.word_vectors)
    if config.freeze_words:
        trained = [word for word in common if word not in vectors]
    else:
        seen = [word for word in vectors.tokens if word in counts]
        trained = list(dict.fromkeys([*seen, *common]))
    return WordEmbedding.from_vectors(
        vectors,
        list(dict.fromkeys([*trained, *vectors.tokens])),
        lowercase=config.lowercase,
        num_trained=sum(map(is_utf_8, trained)),
        name="words",
    )
