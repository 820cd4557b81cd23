"""Loading of checkpoints: biLM, softmax, vocabulary and language model."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.checkpoints.locations import (
    EMBEDDINGS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    Source,
    in_all_formats,
    local_checkpoint,
    local_path,
    locate,
    one_of,
    required_file,
)
from elmo_tf.checkpoints.manylangs import (
    ENCODER_FILE,
    TOKEN_EMBEDDER_FILE,
    read_manylangs_config,
    read_manylangs_weights,
)
from elmo_tf.checkpoints.named_models import find_named_model
from elmo_tf.checkpoints.names import softmax_rules, token_embedding_rules, weight_rules
from elmo_tf.checkpoints.tf1 import (
    find_tf1_checkpoint,
    load_tf1_bilm,
    load_tf1_softmax,
    tf1_config,
)
from elmo_tf.checkpoints.weight_files import (
    array_names,
    read_weights,
    softmax_variables,
    variables_by_path,
)
from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.lexicon import Lexicon
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
            - a directory with one subdirectory of these kinds, or an archive (`.zip`, `.tar.gz`,
              `.tgz`) of any of them
            - a pair `(options, weights)`
            - an http(s) URL of an archive, or a pair of URLs, which are cached in Keras's cache
            - `hf://owner/name` or `hf://owner/name@revision`, a repository with such files on the
              Hugging Face Hub, which is cached by its library
            - a TensorFlow 1 training directory or checkpoint prefix, see `find_tf1_checkpoint`
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
    path = local_path(path)
    original = find_tf1_checkpoint(path)
    if original is not None:
        _refuse_token_embeddings(token_embeddings, original.prefix)
        return load_tf1_bilm(original, stateful, vocabulary, **kwargs)
    with locate(path) as (options_file, weights_file):
        if _is_manylangs_pair(weights_file):
            _refuse_token_embeddings(token_embeddings, path)
        config = _read_config(options_file, weights_file)
        others: set[str] = set()  # further arrays that the files may contain
        if config.char_cnn is None or token_embeddings is not None:
            others = {rule.dataset for rule in (*weight_rules(config), *token_embedding_rules())}
            folder = options_file.parent
            table_file = token_embeddings or _token_table_file(folder, weights_file)
            words = _token_table_words(vocabulary, folder, table_file == weights_file)
            num_tokens = config.num_tokens if words is None else len(words)
            config = dataclasses.replace(config, char_cnn=None, num_tokens=num_tokens)
            kwargs["vocabulary"] = words
        elif vocabulary is not None:
            raise ValueError("`vocabulary` requires `token_embeddings`.")
        lexicon = load_lexicon(config, options_file.parent)
        bilm = BiLM(config, lexicon=lexicon, stateful=stateful, **kwargs)
        variables = variables_by_path(bilm)
        if config.char_cnn is None:
            embedding = {k: v for k, v in variables.items() if k.startswith("token_embedding/")}
            read_weights(table_file, token_embedding_rules(), embedding, others)
            variables = {k: v for k, v in variables.items() if k not in embedding}
        if _is_manylangs_pair(weights_file):
            read_manylangs_weights(weights_file.parent, config, variables)
        else:
            read_weights(weights_file, weight_rules(config), variables, others)
    return bilm


def _token_table_file(folder: Path, weights_file: Path) -> Path:
    """The file with the token table of a biLM without a character CNN."""
    (rule,) = token_embedding_rules()
    found = any(file.is_file() for file in in_all_formats(folder / EMBEDDINGS_FILE))
    if not found and rule.dataset in array_names(weights_file):
        return weights_file
    reason = (
        f"a biLM without a character CNN needs it, or the array `{rule.dataset}` in "
        f"{weights_file.name}"
    )
    return required_file(folder, EMBEDDINGS_FILE, reason)


def _token_table_words(
    path: str | os.PathLike | None, folder: Path, is_optional: bool
) -> Vocabulary | None:
    """The vocabulary of a token table."""
    if path is None and is_optional and not (folder / VOCABULARY_FILE).is_file():
        return None
    reason = "a biLM without a character CNN needs it"
    return Vocabulary.load(path or required_file(folder, VOCABULARY_FILE, reason))


def _refuse_token_embeddings(token_embeddings: Any, checkpoint: Any) -> None:
    if token_embeddings is not None:
        raise ValueError(
            "`token_embeddings` is not supported for checkpoints of TensorFlow 1 and "
            f"ELMoForManyLangs. Convert the checkpoint first: {checkpoint}"
        )


def load_config(path: Source) -> BiLMConfig:
    """Loads the configuration of a checkpoint's biLM. Arguments and errors: see `load_bilm`."""
    path = local_path(path)
    original = find_tf1_checkpoint(path)
    if original is not None:
        return tf1_config(original)
    with locate(path) as (options_file, weights_file):
        return _read_config(options_file, weights_file)


def _read_config(options_file: Path, weights_file: Path) -> BiLMConfig:
    if _is_manylangs_pair(weights_file):
        return read_manylangs_config(options_file.parent)
    return BiLMConfig.from_options(options_file)


def _is_manylangs_pair(weights_file: Path) -> bool:
    return weights_file.name in (ENCODER_FILE, TOKEN_EMBEDDER_FILE)


def load_softmax(directory: str | os.PathLike, vocabulary_size: int, bilm: BiLM) -> SampledSoftmax:
    """Loads the softmax of a checkpoint directory written by training.

    Args:
        directory: a checkpoint directory, a name on the Hugging Face Hub, or a TensorFlow 1
            directory, see `load_bilm`.
        vocabulary_size: int. Size of the vocabulary.
        bilm: the biLM of the same directory, for a softmax that shares its embedding table.

    Raises:
        FileNotFoundError: there is no `softmax.hdf5`.
        ValueError: the file is damaged, has the wrong shape, or differs from the shared table of
            `bilm`.
    """
    directory = local_path(directory)
    original = find_tf1_checkpoint(directory)
    if original is not None:
        return load_tf1_softmax(original, bilm, vocabulary_size)
    path = _softmax_file(directory)
    config = BiLMConfig.from_options(one_of(Path(directory), ("*options.json",)))
    is_tied = config.tie_softmax
    softmax = TiedSoftmax(bilm.token_encoder) if is_tied else SampledSoftmax(vocabulary_size)
    softmax.build((None, config.lstm.projection_dim))
    embedding = softmax.kernel.numpy() if is_tied else None
    read_weights(path, softmax_rules(), softmax_variables(softmax))
    if is_tied and not np.array_equal(softmax.kernel.numpy(), embedding):
        softmax.kernel.assign(embedding)
        raise ValueError(
            f"`W` in {path} differs from the embedding table of the biLM, although options.json "
            "has `share_embedding_softmax`. Were the files written by the same run?"
        )
    return softmax


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
    with local_checkpoint(directory) as local:
        original = find_tf1_checkpoint(local)
        if original is None:
            _softmax_file(local)  # before the biLM, which takes long
        folder = Path(local) if original is None else original.folder
        reason = "the softmax needs the vocabulary that it was trained with"
        vocabulary = Vocabulary.load(required_file(folder, VOCABULARY_FILE, reason))
        bilm = load_bilm(local)
        return LanguageModel(bilm, load_softmax(local, len(vocabulary), bilm), vocabulary)


def has_softmax(path: Source) -> bool:
    """Whether a checkpoint has a softmax. `path`: see `load_bilm`."""
    if _is_published(path):
        return False
    with local_checkpoint(path) as local:
        if find_tf1_checkpoint(local) is not None:
            return True
        return not isinstance(local, tuple | list) and any(
            file.is_file() for file in in_all_formats(Path(local, SOFTMAX_FILE))
        )


def load_vocabulary(path: Source) -> Vocabulary | None:
    """Returns the vocabulary of a checkpoint, or None. `path`: see `load_bilm`."""
    if _is_published(path):
        return None
    with local_checkpoint(path) as local:
        if isinstance(local, tuple | list):
            return None
        original = find_tf1_checkpoint(local)
        file = Path(local if original is None else original.folder, VOCABULARY_FILE)
        return Vocabulary.load(file) if file.is_file() else None


def _is_published(path: Source) -> bool:
    """Whether `path` is the name of a published model, which has no softmax."""
    named = find_named_model(path)
    return named is not None and not named.is_built_in


def load_lexicon(config: BiLMConfig, folder: str | os.PathLike) -> Lexicon | None:
    """Returns the lexicon of a checkpoint directory, or None if its biLM has none."""
    if config.char_cnn is None or config.char_cnn.lexicon is None:
        return None
    return Lexicon.load(folder, has_words=config.char_cnn.lexicon.num_words > 0)


def _softmax_file(directory: str | os.PathLike) -> Path:
    reason = "probabilities of words require a checkpoint directory written by training"
    return required_file(Path(directory), SOFTMAX_FILE, reason)
