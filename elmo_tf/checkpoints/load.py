"""Loading of checkpoints: biLM, softmax, vocabulary and language model."""

import contextlib
import dataclasses
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.checkpoints.downloads import cache_folder, cached_file, unpack
from elmo_tf.checkpoints.hugging_face import hub_folder, is_hub_name
from elmo_tf.checkpoints.manylangs import (
    CONFIG_FILE,
    ENCODER_FILE,
    is_manylangs,
    read_manylangs_config,
    read_manylangs_weights,
)
from elmo_tf.checkpoints.named_models import find_named_model, name_hint
from elmo_tf.checkpoints.names import softmax_rules, token_embedding_rules, weight_rules
from elmo_tf.checkpoints.tf1 import (
    find_tf1_checkpoint,
    load_tf1_bilm,
    load_tf1_softmax,
    tf1_config,
)
from elmo_tf.checkpoints.weight_files import (
    FORMATS,
    WEIGHT_PATTERNS,
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

Source = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]

OPTIONS_FILE = "options.json"
# Weight files; `.safetensors` in place of `.hdf5` in that format.
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
    """Loads a biLM from any supported checkpoint.

    Args:
        path: one of

            - a directory with one `*options.json` and one `*weights.hdf5`, `*weights.safetensors`
              or `model.hdf5`, or a zip file of it
            - a directory of ELMoForManyLangs (`config.json`, `encoder.pkl`, `token_embedder.pkl`,
              `char.dic`, `word.dic`), or a zip file of it; the .pkl files are read without PyTorch
              and nothing in them is executed
            - a pair `(options, weights)`
            - an http(s) URL of a zip file, or a pair of URLs, which are cached in Keras's cache
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
            `.safetensors`) in the directory if its options have no `char_cnn`.
        vocabulary: the vocabulary file of `token_embeddings`. Defaults to `vocab.txt` in the
            directory.
        **kwargs: further arguments of `BiLM`.

    Returns:
        A `BiLM` with the checkpoint's weights.

    Raises:
        FileNotFoundError: `path`, or a file in it, does not exist.
        ValueError: a file is damaged, or does not match the others. The message names it.

    Source: the published checkpoints of Peters et al. 2018 and of Che et al. 2018.
    """
    path = _local(path)
    original = find_tf1_checkpoint(path)
    if original is not None:
        _refuse_token_embeddings(token_embeddings, original.prefix)
        return load_tf1_bilm(original, stateful, vocabulary, **kwargs)
    with _locate(path) as (options_file, weights_file):
        if _is_manylangs_pair(weights_file):
            _refuse_token_embeddings(token_embeddings, path)
        config = _read_config(options_file, weights_file)
        if config.char_cnn is None or token_embeddings is not None:
            folder = Path(options_file).parent
            reason = "a biLM without a character CNN needs it"
            vocabulary = Vocabulary.load(vocabulary or _required(folder, VOCABULARY_FILE, reason))
            token_embeddings = token_embeddings or _required(folder, EMBEDDINGS_FILE, reason)
            ignore = {rule.dataset for rule in weight_rules(config)}
            config = dataclasses.replace(config, char_cnn=None, num_tokens=len(vocabulary))
            kwargs["vocabulary"] = vocabulary
            ignore -= {rule.dataset for rule in weight_rules(config)}
        elif vocabulary is not None:
            raise ValueError("`vocabulary` requires `token_embeddings`.")
        else:
            ignore = set()
        lexicon = load_lexicon(config, Path(options_file).parent)
        bilm = BiLM(config, lexicon=lexicon, stateful=stateful, **kwargs)
        variables = variables_by_path(bilm)
        if config.char_cnn is None:
            embedding = {k: v for k, v in variables.items() if k.startswith("token_embedding/")}
            read_weights(token_embeddings, token_embedding_rules(), embedding)
            variables = {k: v for k, v in variables.items() if k not in embedding}
        if _is_manylangs_pair(weights_file):
            read_manylangs_weights(Path(weights_file).parent, config, variables)
        else:
            read_weights(weights_file, weight_rules(config), variables, ignore)
    return bilm


def _refuse_token_embeddings(token_embeddings: Any, checkpoint: Any) -> None:
    if token_embeddings is not None:
        raise ValueError(
            f"`token_embeddings` requires HDF5 weights. Convert the checkpoint first: {checkpoint}"
        )


def load_config(path: Source) -> BiLMConfig:
    """Loads the configuration of a checkpoint's biLM. Arguments and errors: see `load_bilm`."""
    path = _local(path)
    original = find_tf1_checkpoint(path)
    if original is not None:
        return tf1_config(original)
    with _locate(path) as (options_file, weights_file):
        return _read_config(options_file, weights_file)


def _read_config(options_file: Path, weights_file: Path) -> BiLMConfig:
    if _is_manylangs_pair(weights_file):
        return read_manylangs_config(Path(options_file).parent)
    return BiLMConfig.from_options(options_file)


def _is_manylangs_pair(weights_file: Path) -> bool:
    return Path(weights_file).name == ENCODER_FILE


def load_softmax(
    directory: str | os.PathLike, vocabulary_size: int, bilm: BiLM | None = None, **kwargs
) -> SampledSoftmax:
    """Loads the softmax of a checkpoint directory written by training.

    Args:
        directory: a checkpoint directory, a name on the Hugging Face Hub, or a TensorFlow 1
            directory, see `load_bilm`.
        vocabulary_size: int. Size of the vocabulary.
        bilm: the biLM of the same directory, for a softmax that shares its embedding table. Without
            it, the softmax gets a separate table.
        **kwargs: further arguments of `SampledSoftmax`.

    Raises:
        FileNotFoundError: there is no `softmax.hdf5`.
        ValueError: the file is damaged, has the wrong shape, or differs from the shared table of
            `bilm`.
    """
    directory = _local(directory)
    original = find_tf1_checkpoint(directory)
    if original is not None:
        return load_tf1_softmax(original, vocabulary_size, bilm, **kwargs)
    config = BiLMConfig.from_options(_one_of(Path(directory), ("*options.json",)))
    path = _softmax_file(directory)
    is_tied = bilm is not None and config.tie_softmax
    if is_tied:
        softmax = TiedSoftmax(bilm.token_encoder, **kwargs)
    else:
        softmax = SampledSoftmax(vocabulary_size, **kwargs)
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
        vocabulary = Vocabulary.load(_required(folder, VOCABULARY_FILE, reason))
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
    return _required(Path(directory), SOFTMAX_FILE, reason)


def in_all_formats(path: Path) -> list[Path]:
    """A weight file's path in each of the formats; that of another file alone."""
    if path.suffix != ".hdf5":
        return [path]
    return [path.with_suffix(f".{name}") for name in FORMATS]


def _required(folder: Path, name: str, reason: str) -> Path:
    found = [path for path in in_all_formats(folder / name) if path.is_file()]
    if not found:
        raise FileNotFoundError(f"There is no {name} in {folder}: {reason}.")
    return _newest(found)


@contextlib.contextmanager
def local_checkpoint(path: Source) -> Iterator[Source]:
    """Context manager that yields a local directory or pair of files: downloaded, or unpacked.

    A TensorFlow 1 checkpoint is unchanged. Arguments and errors: see `load_bilm`.
    """
    path = _local(path)
    if isinstance(path, tuple | list):
        if len(path) != 2:
            raise ValueError(f"A pair (options, weights) is required. Received: {path!r}")
        yield tuple(_existing(_fetched(part)) for part in path)
        return
    if find_tf1_checkpoint(path) is not None:
        yield path
        return
    named = find_named_model(path)
    path = _existing(_fetched(path)) if named is None else named.fetch()
    if path.is_dir():
        yield path
        return
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} is not a checkpoint: pass a directory or zip file with options.json and "
            "weights.hdf5 or weights.safetensors, or of ELMoForManyLangs; or a pair (options, "
            "weights)."
        )
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, folder)
        # The files may be in a directory of the zip file.
        known = (*Path(folder).rglob("*options.json"), *Path(folder).rglob(ENCODER_FILE))
        homes = {file.parent for file in known if not _is_hidden(file)}
        yield homes.pop() if len(homes) == 1 else Path(folder)


@contextlib.contextmanager
def _locate(path: Source) -> Iterator[tuple[Path, Path]]:
    """Context manager that yields local paths of the options and the weights."""
    with local_checkpoint(path) as local:
        if isinstance(local, tuple | list):
            yield tuple(local)
        else:
            is_unpacked = isinstance(path, str | os.PathLike) and zipfile.is_zipfile(path)
            yield _files_of(local, shown=path if is_unpacked else None)


def _local(path: Source) -> Source:
    """`path`, or the local directory of a built-in model or of a name on the Hugging Face Hub."""
    named = find_named_model(path)
    if named is not None and named.is_built_in:
        return named.fetch()
    return hub_folder(path) if is_hub_name(path) else path


def _fetched(path: str | os.PathLike) -> Path:
    """The local path of a URL or path."""
    text = os.fspath(path)
    if text.startswith(("http://", "https://")):
        # Different checkpoints often have equal file names: one cache directory per URL directory.
        folder = hashlib.sha256(text.rpartition("/")[0].encode()).hexdigest()[:16]
        return cached_file(text, cache_folder(folder))
    return Path(path)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"There is no checkpoint {path}.{name_hint(path)}")
    return path


def _newest(files: Iterable[Path]) -> Path:
    """Of a file in several formats, the newest: an interrupted save may leave an older one."""
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def _files_of(folder: Path, shown: Source | None = None) -> tuple[Path, Path]:
    """The options and the weights."""
    if is_manylangs(folder):
        return folder / CONFIG_FILE, folder / ENCODER_FILE
    options = _one_of(folder, ("*options.json",), shown)
    by_format = [[name for name in WEIGHT_PATTERNS if name.endswith(end)] for end in FORMATS]
    found = [patterns for patterns in by_format if _matches(folder, patterns)]
    if not found:
        return options, _one_of(folder, WEIGHT_PATTERNS, shown)
    return options, _newest(_one_of(folder, patterns, shown) for patterns in found)


def _matches(folder: Path, patterns: Iterable[str]) -> list[Path]:
    found = (file for pattern in patterns for file in folder.glob(pattern))
    return sorted(file for file in found if not _is_hidden(file))


def _one_of(folder: Path, patterns: Sequence[str], shown: Source | None = None) -> Path:
    found = _matches(folder, patterns)
    if len(found) == 1:
        return found[0]
    wanted = " or ".join(patterns)
    if not found:
        raise FileNotFoundError(f"There is no {wanted} in {shown or folder}.")
    raise ValueError(
        f"{shown or folder} must contain one {wanted}, not {len(found)}: "
        f"{', '.join(file.name for file in found)}. Pass the pair (options, weights)."
    )


def _is_hidden(path: Path) -> bool:
    """Whether a file is hidden: macOS adds `._options.json` to `options.json`."""
    return path.name.startswith(".")
