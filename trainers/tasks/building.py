"""A configuration ─► the parts of a task model: embeddings, ELMo, and the layers that are kept."""

import collections
import contextlib
from collections.abc import Iterator, Sequence

import keras

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_cache import LayerCache
from elmo_tf.embedding.layer_files import LayerFiles
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks import CharacterEmbedding, WordEmbedding
from elmo_tf.tasks.data.word_vectors import read_word_vectors
from elmo_tf.tasks.embeddings import word_counts
from elmo_tf.text.data_warnings import is_utf_8
from elmo_tf.trainers.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.examples import DistinctTexts

# Words that stand less often are read as any other word, so that there are some to learn that from.
_LEAST_COUNT = 2


def new_embeddings(
    config: TaskConfig, texts: Sequence[tuple[list[str], ...]]
) -> list[keras.layers.Layer]:
    """The task's own vectors of tokens.

    Args:
        config: of the run.
        texts: what is trained on.
    """
    layers: list[keras.layers.Layer] = []
    counts = word_counts((tokens for one in texts for tokens in one), config.lowercase)
    common = [word for word, count in counts.most_common() if count >= _LEAST_COUNT]
    if config.word_vectors is not None:
        layers.append(_given_words(config, counts, common))
    elif config.word_dim and common:
        layers.append(
            WordEmbedding(common, config.word_dim, lowercase=config.lowercase, name="words")
        )
    if config.characters:
        layers.append(CharacterEmbedding(name="characters"))
    return layers


def new_elmo(config: TaskConfig, bilm: BiLM | None) -> Elmo | None:
    """The ELMo of a task model, with a mix for each place where it goes in."""
    if bilm is None:
        return None
    return Elmo(
        bilm,
        num_mixes=2 if config.placement == "both" else 1,
        dropout=config.elmo_dropout,
        layer_norm=config.layer_norm,
        l2=config.mix_l2 if config.mix == "learnt" else 0.0,
        trainable_bilm=config.fine_tune,
        top_only=config.mix == "top",
        average=config.mix == "average",
        name="elmo",
    )


@contextlib.contextmanager
def kept_layers(
    config: TaskConfig,
    bilm: BiLM | None,
    texts: Sequence[tuple[list[str], ...]],
    more: Sequence[tuple[list[str], ...]] = (),
) -> Iterator[tuple[DistinctTexts, LayerFiles] | None]:
    """Gives the layers of all texts within the block, if the biLM is not trained.

    Args:
        config: of the run.
        bilm: whose layers.
        texts: of all examples.
        more: texts that other runs will read. Their layers are kept for these, if there is room.
    """
    if bilm is None or config.fine_tune or config.placement == "none":
        yield None
        return
    cache = LayerCache(config.cache, int(min(config.cache_gb * 2**30, 2**62)))
    embedder = Embedder(bilm, "all", config.precision)
    distinct = DistinctTexts(more, texts)
    if more and not cache.has_room(embedder, distinct.sentences):
        distinct = DistinctTexts(texts)
    with cache.layers(embedder, distinct.sentences) as layers:
        yield distinct, layers


def _given_words(
    config: TaskConfig, counts: collections.Counter[str], common: Sequence[str]
) -> WordEmbedding:
    """The words of a file of vectors, and those that are common; first those that are trained."""
    vectors = read_word_vectors(config.word_vectors)
    if config.freeze_words:
        given = set(vectors.tokens)
        trained = [word for word in common if word not in given]
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
