"""The base class of checkpoint formats."""

import abc
import dataclasses
import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import keras

from elmo_tf.checkpoints.weight_files import FORMATS, variables_by_path
from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.lexicon import Lexicon
from elmo_tf.text.vocabulary import Vocabulary

Source = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]
# A directory, a file, or a pair (options, weights).
LocalPath = Path | tuple[Path, Path]

OPTIONS_FILE = "options.json"
# Weight files; `.safetensors` in place of `.hdf5` in that format.
WEIGHTS_FILE = "weights.hdf5"
EMBEDDINGS_FILE = "token_embeddings.hdf5"
SOFTMAX_FILE = "softmax.hdf5"
VOCABULARY_FILE = "vocab.txt"


class Checkpoint(abc.ABC):
    """The files of a checkpoint on this machine.

    A format is a subclass in `load.CHECKPOINT_FORMATS`. It implements `recognizes`, `config`,
    `read_weights` and, if the format has one, `lexicon`. If it has a softmax, it sets `has_softmax`
    and implements `softmax_size()`, the number of tokens, and `read_softmax(softmax)`, which loads
    the weights. The vocabulary is `vocab.txt` in all formats.

    Args:
        path: what the class recognizes.
        shown: the source in messages.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or does not match the others.
    """

    # The names of the files, which are downloaded from the Hugging Face Hub.
    patterns: ClassVar[tuple[str, ...]]
    # The file of `load_bilm(token_embeddings=…)`, if the format allows it.
    token_embeddings: str | os.PathLike | None = None
    replaces_characters = False
    # Whether a biLM without a character CNN can be read without a vocabulary.
    holds_token_table = False
    has_softmax = False

    def __init__(self, path: LocalPath, shown: Source):
        self.path = path
        first = path[0] if isinstance(path, tuple) else path
        self.folder = first if first.is_dir() else first.parent

    @classmethod
    @abc.abstractmethod
    def recognizes(cls, path: LocalPath) -> bool:
        """Whether a path is a checkpoint of this format, or a part of one."""

    @functools.cached_property
    @abc.abstractmethod
    def config(self) -> BiLMConfig:
        """The shape of the biLM."""

    @abc.abstractmethod
    def read_weights(self, config: BiLMConfig, variables: dict[str, keras.Variable]) -> None:
        """Loads the weights of a biLM of this shape. If that fails, no variable is changed."""

    def lexicon(self, config: BiLMConfig) -> Lexicon | None:
        """The lexicon of a biLM of this shape, or None if it has none."""
        if config.char_cnn is None or config.char_cnn.lexicon is None:
            return None
        return Lexicon.load(self.folder, has_words=config.char_cnn.lexicon.num_words > 0)

    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary, or None if there is none."""
        path = self.folder / VOCABULARY_FILE
        return Vocabulary.load(path) if path.is_file() else None

    def bilm(
        self,
        token_embeddings: str | os.PathLike | None = None,
        vocabulary: str | os.PathLike | None = None,
        **kwargs,
    ) -> BiLM:
        """Loads the biLM. Arguments and errors: see `load_bilm`."""
        config = self.config
        if token_embeddings is not None and not self.replaces_characters:
            raise ValueError(
                "`token_embeddings` is not supported for checkpoints of TensorFlow 1 and "
                f"ELMoForManyLangs. Convert the checkpoint first: {self.path}"
            )
        self.token_embeddings = token_embeddings
        words = None
        if config.char_cnn is None or token_embeddings is not None:
            words = Vocabulary.load(vocabulary) if vocabulary is not None else self.vocabulary()
            if words is None and not self.holds_token_table:
                raise self._no_vocabulary()
            num_tokens = config.num_tokens if words is None else len(words)
            config = dataclasses.replace(config, char_cnn=None, num_tokens=num_tokens)
        elif vocabulary is not None:
            raise ValueError("`vocabulary` requires `token_embeddings`.")
        bilm = BiLM(config, vocabulary=words, lexicon=self.lexicon(config), **kwargs)
        self.read_weights(config, variables_by_path(bilm))
        return bilm

    def softmax(self, bilm: BiLM, vocabulary_size: int | None = None) -> SampledSoftmax:
        """Loads the softmax, which may share the embedding table of `bilm`, from this checkpoint.

        `vocabulary_size` is the expected size; None takes it from the file.

        Raises:
            FileNotFoundError: there is no softmax.
            ValueError: a file is damaged or has the wrong shape.
        """
        self._check_softmax()
        if bilm.config.tie_softmax:
            softmax = TiedSoftmax(bilm.token_encoder)
        else:
            softmax = SampledSoftmax(vocabulary_size or self.softmax_size())
        softmax.build((None, bilm.config.lstm.projection_dim))
        self.read_softmax(softmax)
        return softmax

    def language_model(self) -> LanguageModel:
        """Loads the biLM, the softmax and the vocabulary. Errors: see `load_language_model`."""
        self._check_softmax()  # before the biLM, which takes long
        vocabulary = self.vocabulary()
        if vocabulary is None:
            raise self._no_vocabulary()
        bilm = self.bilm()
        return LanguageModel(bilm, self.softmax(bilm, len(vocabulary)), vocabulary)

    def _check_softmax(self) -> None:
        if not self.has_softmax:
            raise FileNotFoundError(
                f"There is no {SOFTMAX_FILE} in {self.folder}: probabilities of words require a "
                "checkpoint directory written by training."
            )

    def _no_vocabulary(self) -> FileNotFoundError:
        return FileNotFoundError(
            f"There is no {VOCABULARY_FILE} in {self.folder}, which a softmax and a biLM without a "
            "character CNN need."
        )


def in_all_formats(path: Path) -> list[Path]:
    """The paths of a weight file in all formats."""
    return [path.with_suffix(f".{name}") for name in FORMATS]


def newest(files: Iterable[Path]) -> Path | None:
    """Of a file in several formats, the newest: an interrupted save may leave an older one."""
    existing = [file for file in files if file.is_file()]
    return max(existing, key=lambda file: file.stat().st_mtime_ns) if existing else None


def matches(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """The files that match; not hidden ones, such as `._options.json`, which macOS adds."""
    paths = (file for pattern in patterns for file in folder.glob(pattern))
    return sorted(file for file in paths if not file.name.startswith("."))
