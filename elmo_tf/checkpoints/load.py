"""Any supported checkpoint → BiLM."""

import contextlib
import dataclasses
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from elmo_tf.checkpoints.downloads import cache_folder, cached_file
from elmo_tf.checkpoints.hdf5 import read_weights, softmax_variables, variables_by_path
from elmo_tf.checkpoints.named_models import find_named_model, name_hint
from elmo_tf.checkpoints.names import softmax_rules, token_embedding_rules, weight_rules
from elmo_tf.checkpoints.tf1 import (
    find_tf1_checkpoint,
    load_tf1_bilm,
    load_tf1_softmax,
    tf1_config,
)
from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.vocabulary import Vocabulary

Source = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]

OPTIONS_FILE = "options.json"
WEIGHTS_FILE = "weights.hdf5"
EMBEDDINGS_FILE = "token_embeddings.hdf5"
SOFTMAX_FILE = "softmax.hdf5"
VOCABULARY_FILE = "vocab.txt"


def load_bilm(
    path: Source,
    stateful: bool = False,
    token_embeddings: str | os.PathLike | None = None,
    vocabulary: str | os.PathLike | None = None,
    **kwargs,
) -> BiLM:
    """Reads a biLM from any supported checkpoint.

    Args:
        path: a directory that holds one `*options.json` and one `*weights.hdf5` (or `model.hdf5`);
            a zip of such files; a pair `(options, weights)`; an http(s) URL of a zip, or a pair of
            URLs, which are kept in Keras's cache; a training directory of the original, or the
            prefix of a checkpoint in one, see `find_tf1_checkpoint`; the name of a model, unless
            there is a file or folder of that name: "small-en", which comes with the package, or
            "original", "small", "medium" or "5.5B", the published ones, which are downloaded into
            Keras's cache.
        stateful: see `BiLM`.
        token_embeddings: an HDF5 file with the dataset `embedding`, one row a token of
            `vocabulary`. Tokens then come from it instead of from their characters. A directory
            whose options have no `char_cnn` brings its own, `token_embeddings.hdf5`.
        vocabulary: the vocabulary file of `token_embeddings`. A directory brings its own,
            `vocab.txt`.
        **kwargs: further arguments of `BiLM`.

    Returns:
        A `BiLM` with the checkpoint's weights.

    Raises:
        FileNotFoundError: `path`, or a file that must be in it, is not there.
        ValueError: a file is damaged, or does not fit the others. The message names it.

    Source: the published checkpoints of Peters et al. 2018.
    """
    original = find_tf1_checkpoint(path)
    if original is not None:
        if token_embeddings is not None:
            raise ValueError(
                "`token_embeddings` goes with weights as HDF5. Convert the checkpoint first: "
                f"{original.prefix}"
            )
        return load_tf1_bilm(original, stateful, vocabulary, **kwargs)
    with _locate(path) as (options_file, weights_file):
        config = BiLMConfig.from_options(options_file)
        if config.char_cnn is None or token_embeddings is not None:
            folder = Path(options_file).parent
            vocabulary = Vocabulary.load(vocabulary or _beside(folder, VOCABULARY_FILE))
            token_embeddings = token_embeddings or _beside(folder, EMBEDDINGS_FILE)
            ignore = {rule.dataset for rule in weight_rules(config)}
            config = dataclasses.replace(config, char_cnn=None, num_tokens=len(vocabulary))
            kwargs["vocabulary"] = vocabulary
            ignore -= {rule.dataset for rule in weight_rules(config)}
        elif vocabulary is not None:
            raise ValueError("`vocabulary` goes with `token_embeddings`, which is missing.")
        else:
            ignore = set()
        bilm = BiLM(config, stateful=stateful, **kwargs)
        variables = variables_by_path(bilm)
        if config.char_cnn is None:
            embedding = {k: v for k, v in variables.items() if k.startswith("token_embedding/")}
            read_weights(token_embeddings, token_embedding_rules(), embedding)
            variables = {k: v for k, v in variables.items() if k not in embedding}
        read_weights(weights_file, weight_rules(config), variables, ignore)
    return bilm


def load_config(path: Source) -> BiLMConfig:
    """The shape of a checkpoint's biLM, without its weights.

    Args:
        path: see `load_bilm`. One on the web is downloaded, weights and all.

    Raises:
        FileNotFoundError, ValueError: see `load_bilm`.
    """
    original = find_tf1_checkpoint(path)
    if original is not None:
        return tf1_config(original)
    with _locate(path) as (options_file, _):
        return BiLMConfig.from_options(options_file)


def load_softmax(
    directory: str | os.PathLike, vocabulary_size: int, bilm: BiLM | None = None, **kwargs
) -> SampledSoftmax:
    """Reads the softmax that training left in a checkpoint directory.

    Args:
        directory: a checkpoint directory, also one of the original's training, see `load_bilm`.
        vocabulary_size: int. Tokens of its vocabulary.
        bilm: the biLM of the same directory. Needed for a softmax that shares its embedding table;
            without it, such a softmax has a table of its own.
        **kwargs: further arguments of `SampledSoftmax`.

    Raises:
        FileNotFoundError: there is no `softmax.hdf5`.
        ValueError: it is damaged, has another shape, or another table than the `bilm` that should
            share it.
    """
    original = find_tf1_checkpoint(directory)
    if original is not None:
        return load_tf1_softmax(original, vocabulary_size, bilm, **kwargs)
    config = BiLMConfig.from_options(_one_of(Path(directory), ("*options.json",)))
    path = _trained_file(directory, SOFTMAX_FILE)
    if bilm is not None and config.tie_softmax:
        return _load_tied_softmax(path, bilm, **kwargs)
    softmax = SampledSoftmax(vocabulary_size, **kwargs)
    softmax.build((None, config.lstm.projection_dim))
    read_weights(path, softmax_rules(), softmax_variables(softmax))
    return softmax


def _load_tied_softmax(path: Path, bilm: BiLM, **kwargs) -> TiedSoftmax:
    softmax = TiedSoftmax(bilm.token_encoder, **kwargs)
    softmax.build((None, bilm.config.lstm.projection_dim))
    embedding = softmax.kernel.numpy()
    read_weights(path, softmax_rules(), softmax_variables(softmax))
    if not np.array_equal(softmax.kernel.numpy(), embedding):
        softmax.kernel.assign(embedding)
        raise ValueError(
            f"`W` in {path} is not the embedding table of the biLM, though options.json says that "
            "they are one (`share_embedding_softmax`). Were the files written by the same run?"
        )
    return softmax


def load_language_model(directory: str | os.PathLike) -> LanguageModel:
    """Reads a language model from a checkpoint that training left: biLM, softmax and vocabulary.

    It gives probabilities of words, which a biLM alone does not. `elmo_tf.evaluation` uses it:
    `perplexity(model, files)` measures text, `sentence_scores(model, sentences)` gives the log
    probability of each sentence and token, and `substitutes(model, sentence, positions)` the tokens
    that fit a position best.

    Args:
        directory: a directory with the biLM's files (see `load_bilm`), `softmax.hdf5` and
            `vocab.txt`, as `elmo-tf train` leaves it; or a training directory of the original that
            also has `vocab.txt`, or the prefix of a checkpoint in one.

    Returns:
        A `LanguageModel`, with the attributes `bilm`, `softmax` and `vocabulary`.

    Raises:
        FileNotFoundError: a file is missing, or `directory` is the name of a model: `small-en` and
            the published ones have no softmax.
        ValueError: a file is damaged, or does not fit the others. The message names it.
    """
    named = find_named_model(directory)
    if named is not None:
        raise FileNotFoundError(
            f"The model {named.name} has no softmax, so it gives no probabilities of words. "
            "Training that begins with it (elmo-tf train --from) adds one."
        )
    original = find_tf1_checkpoint(directory)
    if original is None:
        _existing(Path(directory))
        _trained_file(directory, SOFTMAX_FILE)  # before all that takes long
    folder = Path(directory) if original is None else original.folder
    if not (folder / VOCABULARY_FILE).is_file():
        raise FileNotFoundError(
            f"There is no {VOCABULARY_FILE} in {folder}, to tell the words of the softmax: put the "
            "vocabulary that it was trained with there, under that name."
        )
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
    bilm = load_bilm(directory)
    return LanguageModel(bilm, load_softmax(directory, len(vocabulary), bilm), vocabulary)


def has_softmax(path: Source) -> bool:
    """Whether `load_language_model` will find a softmax there."""
    if find_tf1_checkpoint(path) is not None:
        return True
    return isinstance(path, str | os.PathLike) and (Path(path) / SOFTMAX_FILE).is_file()


def load_vocabulary(path: Source) -> Vocabulary | None:
    """The vocabulary that lies in a checkpoint directory, or comes with a named model, if any."""
    named = find_named_model(path)
    if named is None and not isinstance(path, str | os.PathLike):
        return None
    file = Path(path if named is None else named.folder, VOCABULARY_FILE)
    return Vocabulary.load(file) if file.is_file() else None


def _trained_file(directory: str | os.PathLike, name: str) -> Path:
    path = Path(directory) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {name} in {os.fspath(directory)}: only a checkpoint directory that "
            "training left can tell the probability of a word."
        )
    return path


@contextlib.contextmanager
def _locate(path: Source) -> Iterator[tuple[Path, Path]]:
    """The options and the weights, as files that exist within the block."""
    if isinstance(path, tuple | list):
        if len(path) != 2:
            raise ValueError(f"A pair (options, weights) is needed. Received: {path!r}")
        yield tuple(_existing(_fetched(part)) for part in path)
        return
    named = find_named_model(path)
    path = _existing(_fetched(path)) if named is None else named.fetch()
    if path.is_dir():
        yield _files_of(path)
        return
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} is no checkpoint: a directory or a zip with options.json and weights.hdf5, or "
            "a pair (options, weights), is needed."
        )
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        try:
            archive.extractall(folder)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
            raise ValueError(f"Cannot unpack {path}: {error}") from None
        # A zip of a directory holds the directory itself.
        options = [file for file in Path(folder).rglob("*options.json") if not _is_hidden(file)]
        homes = {file.parent for file in options}
        yield _files_of(homes.pop() if len(homes) == 1 else Path(folder), shown=path)


def _fetched(path: str | os.PathLike) -> Path:
    """The local path of an address or a path."""
    text = os.fspath(path)
    if text.startswith(("http://", "https://")):
        # Files of unlike checkpoints are often called alike: each web folder has its own here.
        folder = hashlib.sha256(text.rpartition("/")[0].encode()).hexdigest()[:16]
        return cached_file(text, cache_folder(folder))
    return Path(path)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"There is no checkpoint {path}.{name_hint(path)}")
    return path


def _files_of(folder: Path, shown: Path | None = None) -> tuple[Path, Path]:
    options = _one_of(folder, ("*options.json",), shown)
    return options, _one_of(folder, ("*weights.hdf5", "model.hdf5"), shown)


def _one_of(folder: Path, patterns: tuple[str, ...], shown: Path | None = None) -> Path:
    matches = (file for pattern in patterns for file in folder.glob(pattern))
    found = sorted(file for file in matches if not _is_hidden(file))
    if len(found) == 1:
        return found[0]
    wanted = " or ".join(patterns)
    if not found:
        raise FileNotFoundError(f"There is no {wanted} in {shown or folder}.")
    raise ValueError(
        f"{shown or folder} must hold one {wanted}, not {len(found)}: "
        f"{', '.join(file.name for file in found)}. Pass the pair (options, weights)."
    )


def _is_hidden(path: Path) -> bool:
    """Whether it is none of ours: macOS puts `._options.json` beside `options.json`."""
    return path.name.startswith(".")


def _beside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {name} in {folder}: a biLM without a character CNN needs it."
        )
    return path
