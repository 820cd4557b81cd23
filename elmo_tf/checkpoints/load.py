"""Loading of checkpoints: biLM, vocabulary and language model."""

import os

from elmo_tf.checkpoints.formats import Source
from elmo_tf.checkpoints.locations import open_checkpoint
from elmo_tf.checkpoints.named_models import find_named_model
from elmo_tf.config import BiLMConfig
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.vocabulary import Vocabulary


def load_bilm(
    path: Source,
    stateful: bool = False,
    token_embeddings: str | os.PathLike | None = None,
    vocabulary: str | os.PathLike | None = None,
    **kwargs,
) -> BiLM:
    """Loads a biLM from any supported checkpoint.

    Args:
        path: one of

            - a directory with one `*options.json` and one `*weights.hdf5`, `*weights.safetensors`
              or `model.hdf5`, or one HDF5 or safetensors file with another name
            - a directory of ELMoForManyLangs (`config.json`, `encoder.pkl`, `token_embedder.pkl`,
              `char.dic`, `word.dic`); the .pkl files are read without PyTorch and nothing in them
              is executed
            - a TensorFlow 1 training directory or checkpoint prefix, see `TF1Checkpoint`
            - a directory with one subdirectory of these kinds, or an archive (`.zip`, `.tar.gz`,
              `.tgz`) of any of them
            - a pair `(options, weights)`
            - an http(s) URL of an archive, or a pair of URLs, which are cached in Keras's cache
            - `hf://owner/name` or `hf://owner/name@revision`, a repository with such files on the
              Hugging Face Hub, which is cached by its library
            - the name of a model, if no file has that name: "small-en", which is part of the
              package, or one of the published "original", "small", "medium" and "5.5B", or
              "manylangs-de" and the others of ELMoForManyLangs, which are downloaded to Keras's
              cache.

        stateful: see `BiLM`.
        token_embeddings: an HDF5 or safetensors file with the array `embedding`, one row per token
            of `vocabulary`. It replaces the character CNN. Defaults to `token_embeddings.hdf5` (or
            `.safetensors`) in the directory if its options have no `char_cnn`, or else to the file
            of the weights, where the original's `dump_weights` writes this array.
        vocabulary: the vocabulary file of `token_embeddings`. Defaults to `vocab.txt` in the
            directory. Optional if the array is in the file of the weights: without a vocabulary,
            the biLM reads token ids only.
        **kwargs: further arguments of `BiLM`.

    Returns:
        A `BiLM` with the checkpoint's weights.

    Raises:
        FileNotFoundError: `path`, or a file in it, does not exist.
        BlockingIOError: another process writes the weights.
        ValueError: a file is damaged, or does not match the others. The message names it.

    Source: the published checkpoints of Peters et al. 2018 and of Che et al. 2018.
    """
    with open_checkpoint(path) as checkpoint:
        return checkpoint.bilm(token_embeddings, vocabulary, stateful=stateful, **kwargs)


def load_config(path: Source) -> BiLMConfig:
    """Loads the configuration of a checkpoint's biLM. Arguments and errors: see `load_bilm`."""
    with open_checkpoint(path) as checkpoint:
        return checkpoint.config


def load_language_model(directory: str | os.PathLike) -> LanguageModel:
    """Loads a language model from a checkpoint written by training: biLM, softmax and vocabulary.

    Unlike a biLM, it computes probabilities of words. Use it with `elmo_tf.evaluation`:
    `perplexity(model, files)`, `sentence_scores(model, sentences)` for the log probability of each
    sentence and token, and `substitutes(model, sentence, positions)` for the most probable tokens
    at a position.

    Args:
        directory: a directory with the biLM's files (see `load_bilm`), `softmax.hdf5` and
            `vocab.txt`, as written by `elmo-tf train`, or a zip file of it; "small-en"; a name on
            the Hugging Face Hub, `hf://owner/name`; or a TensorFlow 1 training directory or
            checkpoint prefix, with `vocab.txt`.

    Returns:
        A `LanguageModel`, with the attributes `bilm`, `softmax` and `vocabulary`.

    Raises:
        FileNotFoundError: a file is missing, or `directory` is the name of a published model: these
            have no softmax.
        ValueError: a file is damaged, or does not match the others. The message names it.
    """
    if _is_published(directory):
        raise FileNotFoundError(
            f"The model {directory} has no softmax weights, so it cannot compute probabilities of "
            f"words. To train a softmax, use elmo-tf train --from {directory}."
        )
    with open_checkpoint(directory) as checkpoint:
        return checkpoint.language_model()


def has_softmax(path: Source) -> bool:
    """Whether a checkpoint has a softmax. `path`: see `load_bilm`."""
    if _is_published(path):
        return False
    with open_checkpoint(path) as checkpoint:
        return checkpoint.has_softmax


def load_vocabulary(path: Source) -> Vocabulary | None:
    """Returns the vocabulary of a checkpoint, or None. `path`: see `load_bilm`."""
    if _is_published(path):
        return None
    with open_checkpoint(path) as checkpoint:
        return checkpoint.vocabulary()


def _is_published(path: Source) -> bool:
    """Whether `path` is the name of a published model: it is not downloaded for what it lacks."""
    named = find_named_model(path)
    return named is not None and not named.is_built_in
