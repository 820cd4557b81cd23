"""Builds the parts of a task model: embeddings, ELMo or vectors of a file, and cached layers."""

import collections
import contextlib
from collections.abc import Iterator, Sequence

import keras

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_cache import LayerCache
from elmo_tf.evaluation.stored_vectors import VectorSource, open_vectors
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo, LayerMixes, VectorMix
from elmo_tf.tasks import CharacterEmbedding, WordEmbedding
from elmo_tf.tasks.batches import Layers, distinct_texts
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.embeddings import word_counts
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


def vector_source(config: TaskConfig) -> BiLM | VectorSource | None:
    """The biLM of a run, or the vectors in its place, or None."""
    if config.placement == "none":
        return None
    if config.vectors is not None:
        return open_vectors(config.vectors)
    return None if config.elmo is None else load_bilm(config.elmo)


def new_elmo(config: TaskConfig, source: BiLM | VectorSource | None) -> LayerMixes | None:
    """The ELMo layer of a task model, with one mix per place of concatenation."""
    if source is None:
        return None
    arguments = {
        "num_mixes": 2 if config.placement == "both" else 1,
        "dropout": config.elmo_dropout,
        "layer_norm": config.layer_norm,
        "l2": config.mix_l2 if config.mix == "learned" else 0.0,
        "top_only": config.mix == "top",
        "average": config.mix == "average",
        "name": "elmo",
    }
    if isinstance(source, VectorSource):
        return VectorMix(source.num_layers, source.dim, **arguments)
    return Elmo(source, trainable_bilm=config.fine_tune, **arguments)


@contextlib.contextmanager
def cached_layers(
    config: TaskConfig,
    source: BiLM | VectorSource | None,
    texts: Sequence[tuple[list[str], ...]],
    more: Sequence[tuple[list[str], ...]] = (),
) -> Iterator[Layers | None]:
    """Yields the distinct texts and their layers, or None if the biLM is trained or absent.

    Args:
        config: the settings of the run.
        source: the biLM, or the vectors in its place, or None.
        texts: the texts of all examples of the run.
        more: texts of other runs. Their layers are cached too if the cache has room for them.
    """
    if source is None or config.fine_tune:
        yield None
        return
    cache = LayerCache(config.cache, int(min(config.cache_gb * 2**30, 2**62)))
    is_bilm = isinstance(source, BiLM)
    embedder = Embedder(source, "all", config.precision) if is_bilm else source
    distinct = distinct_texts([*more, *texts])
    if more and not cache.has_room(embedder, [*distinct]):
        distinct = distinct_texts(texts)
    with cache.layers(embedder, [*distinct]) as layers:
        yield distinct, layers


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
