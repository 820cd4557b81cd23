"""Loading of checkpoints: biLM, vocabulary and language model."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from elmo_tf.checkpoints.formats import (
    OPTIONS_FILE,
    VOCABULARY_FILE,
    Checkpoint,
    LocalPath,
    Source,
)
from elmo_tf.checkpoints.manylangs import ManyLangsCheckpoint
from elmo_tf.checkpoints.named_models import (
    HUB,
    brief_names,
    cache_folder,
    cached_file,
    find_named_model,
    hub_folder,
    is_archive,
    unpack,
)
from elmo_tf.checkpoints.published import PublishedCheckpoint
from elmo_tf.checkpoints.tf1 import TF1Checkpoint
from elmo_tf.config import BiLMConfig
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.counting import KnownText


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
            - a name that `elmo-tf models` lists, if no file has that name: "small-en" is part of
              the package; others, such as "original", are downloaded to Keras's cache.

        stateful: see `BiLM`.
        token_embeddings: an HDF5 or safetensors file with the array `embedding`, one row per token
            of `vocabulary`. It replaces the character CNN. Without `char_cnn` in the options,
            defaults to `token_embeddings.hdf5` (or `.safetensors`) in the directory, or else to
            the file of the weights, where the original writes this array.
        vocabulary: the vocabulary file of `token_embeddings`. Defaults to `vocab.txt` in the
            directory. Without it, a biLM without a character CNN reads ids only.
        **kwargs: further arguments of `BiLM`.

    Returns:
        A `BiLM` with the checkpoint's weights.

    Raises:
        FileNotFoundError: `path`, or a file in it, does not exist.
        BlockingIOError: another process writes the weights.
        ValueError: a file is damaged, or does not match the others. The message names it.

    Example:
        >>> bilm = elmo_tf.load_bilm("small-en")
        >>> bilm.config.output_dim
        384

    Source: the published checkpoints of Peters et al. 2018 and of Che et al. 2018.
    """
    with open_checkpoint(path) as checkpoint:
        bilm = checkpoint.bilm(token_embeddings, vocabulary, stateful=stateful, **kwargs)
    if isinstance(path, str | os.PathLike):
        bilm.source = os.fspath(path)
    return bilm


def load_config(path: Source) -> BiLMConfig:
    """Loads the configuration of a checkpoint's biLM. Arguments and errors: see `load_bilm`."""
    with open_checkpoint(path) as checkpoint:
        return checkpoint.config


def load_language_model(directory: str | os.PathLike) -> LanguageModel:
    """Loads a language model from a checkpoint written by training: biLM, softmax and vocabulary.

    Use it with the functions `perplexity`, `sentence_scores` and `substitutes` of
    `elmo_tf.evaluation`.

    Args:
        directory: see `load_bilm`, with `softmax.hdf5` and `vocab.txt` as written by `elmo-tf
            train`; or a TensorFlow 1 training directory or checkpoint prefix, with `vocab.txt`.

    Returns:
        A `LanguageModel`, with the attributes `bilm`, `softmax` and `vocabulary`.

    Raises:
        FileNotFoundError: a file is missing. Published models have no softmax.
        ValueError: a file is damaged, or does not match the others. The message names it.

    Example:
        >>> model = elmo_tf.load_language_model("small-en")
        >>> model.vocabulary.tokens[:5]
        ('<S>', '</S>', '<UNK>', ',', 'the')
    """
    named = find_named_model(directory)
    if named is not None and not named.is_built_in:
        raise FileNotFoundError(
            f"The model {directory} has no softmax weights, so it cannot compute probabilities of "
            f"words. To train a softmax, use elmo-tf train --from {directory}."
        )
    with open_checkpoint(directory) as checkpoint:
        return checkpoint.language_model()


def known_text(bilm: BiLM) -> KnownText:
    """The text that a biLM knows. Files in the folder of its checkpoint tell the training text."""
    char_cnn, lexicon = bilm.config.char_cnn, bilm.lexicon
    limit = None if char_cnn is None else char_cnn.max_chars - 2  # without word boundaries
    known = KnownText(limit, vocabulary=bilm.vocabulary, tokenizer=bilm.config.tokenizer)
    if lexicon is not None:
        return known._replace(unit="characters", characters=frozenset(lexicon.entries))
    if bilm.source is None:
        return known
    named = find_named_model(bilm.source)
    folder = Path(named.folder if named else bilm.source)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        text = (folder / VOCABULARY_FILE).read_text("utf-8", errors="ignore")
        known = known._replace(characters=frozenset(text), tokens=frozenset(text.split("\n")))
        corpus = json.loads((folder / "training.json").read_text("utf-8"))["corpus"]
        known = known._replace(unknown_share=corpus["unknown"] / corpus["tokens"])
    return known


# The first format that recognizes a path reads it.
CHECKPOINT_FORMATS = (TF1Checkpoint, ManyLangsCheckpoint, PublishedCheckpoint)


@contextlib.contextmanager
def open_checkpoint(path: Source) -> Iterator[Checkpoint]:
    """Context manager that downloads or unpacks a checkpoint if needed.

    Arguments and errors: see `load_bilm`.
    """
    if isinstance(path, tuple | list):
        if len(path) != 2:
            raise ValueError(f"A pair (options, weights) is required. Received: {path!r}")
        pair = tuple(_existing(_fetched(part)) for part in path)
        yield _format_at(pair)(pair, path)
        return
    named = find_named_model(path)
    local = _fetched(path) if named is None else named.fetch()
    if (kind := _format_at(local)) is not None:
        yield kind(local, path)
    elif _existing(local).is_dir():
        yield _within(local, local.iterdir(), path)
    elif is_archive(local):
        with tempfile.TemporaryDirectory() as folder:
            unpack(local, folder)
            yield _within(Path(folder), Path(folder).rglob("*"), path)
    else:
        raise ValueError(
            f"{path} is not a checkpoint: pass a directory, an archive (.zip, .tar.gz) or a pair "
            "(options, weights)."
        )


def _format_at(path: LocalPath) -> type[Checkpoint] | None:
    return next((kind for kind in CHECKPOINT_FORMATS if kind.recognizes(path)), None)


def _within(folder: Path, others: Iterable[Path], shown: Source) -> Checkpoint:
    """The checkpoint in a directory, or else in the outermost of `others` with one."""

    def is_home(path: Path) -> bool:  # not the assets of a SavedModel
        is_hidden = path.name.startswith(".") or (path.parent / "saved_model.pb").exists()
        return path.is_dir() and not is_hidden and _format_at(path) is not None

    homes = [folder] if _format_at(folder) is not None else filter(is_home, others)
    homes = sorted(homes, key=lambda home: (len(home.parts), home))
    homes = [home for home in homes if len(home.parts) == len(homes[0].parts)]
    if not homes:
        raise FileNotFoundError(
            f"There is no *{OPTIONS_FILE} in {shown}. (An exported model or a task model is not a "
            "checkpoint.)"
        )
    if len(homes) > 1:
        names = ", ".join(str(home.relative_to(folder)) for home in homes)
        raise ValueError(
            f"{shown} holds several checkpoints: {names}. Pass the directory of one of them."
        )
    return _format_at(homes[0])(homes[0], shown)


def _fetched(path: str | os.PathLike) -> Path:
    """The local path of a URL, a name on the Hugging Face Hub, or a path."""
    text = os.fspath(path)
    if text.startswith(HUB):
        return hub_folder(
            text, {f"*{name}" for kind in CHECKPOINT_FORMATS for name in kind.patterns}
        )
    if text.startswith(("http://", "https://")):
        # Different checkpoints often have equal file names: one cache directory per URL directory.
        address = urlsplit(text)
        folder = address._replace(path=address.path.rpartition("/")[0]).geturl()
        return cached_file(text, cache_folder(hashlib.sha256(folder.encode()).hexdigest()[:16]))
    return Path(path)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"There is no checkpoint {path}. Models: {brief_names()}.")
    return path
