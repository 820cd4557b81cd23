"""The subcommand `distill`: a biLM ─► static word vectors."""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from absl import logging

from elmo_tf.commands.options import Model, Overwrite, Precision, subcommand
from elmo_tf.settings import Count, Texts, checked_dataclass, setting, settings_of

_OF_CORPUS = ("layers", "min_count", "max_size", "precision")


@checked_dataclass(kw_only=True)
class _DistillOptions:
    EXCLUSIVE: ClassVar = (("vocab", "corpus"),)

    model: Model
    vocab: str | None = setting(
        None, "words, one per line: the vectors are those of the biLM's layer 0, without context"
    )
    corpus: Texts = setting(
        (),
        "text, one tokenized sentence per line: the vector of a word is the mean over its "
        "occurrences",
        metavar="GLOB",
    )
    output: str = setting(
        help="word2vec's text format, or its binary format if the name ends in .bin"
    )
    overwrite: Overwrite = False
    layers: Literal["average", "top"] = setting(
        "average", "vectors to average, see elmo-tf embed", group="with --corpus"
    )
    min_count: Count = setting(1, "leave out words rarer than N")
    max_size: Count | None = setting(None, "most frequent words to keep", default_help="all")
    precision: Precision = "float32"

    def __post_init__(self):
        if self.vocab is None and not self.corpus:
            raise ValueError("one of the options --vocab --corpus is required")
        given = any(
            getattr(self, name) != settings_of(type(self))[name].default for name in _OF_CORPUS
        )
        if self.vocab is not None and given:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in _OF_CORPUS)
            raise ValueError(f"{names} are only for --corpus: layer 0 has no context")


@subcommand("elmo-tf distill small-en --corpus text.txt --output vectors.txt")
def distill(options: _DistillOptions) -> None:
    """Write one static vector per word, in word2vec's format."""
    from elmo_tf.embedding.distillation import write_word_vectors
    from elmo_tf.files import refuse_file

    refuse_file(options.output, options.overwrite)
    how = _of_corpus if options.vocab is None else _of_vocabulary
    words, dim, vectors = how(options)
    write_word_vectors(options.output, words, vectors, dim)
    logging.info("%s holds %s vectors of %d dimensions.", options.output, f"{len(words):,}", dim)


def _of_vocabulary(options: Any) -> tuple[list[str], int, Iterable[Any]]:
    """Words, the dimension, and the words' vectors of layer 0."""
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.embedding.distillation import token_vectors
    from elmo_tf.progress import progress_over
    from elmo_tf.text.reading import read_lines
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS

    lines = (line.strip() for line in read_lines(options.vocab))
    words = list(dict.fromkeys(word for word in lines if word and word not in SPECIAL_TOKENS))
    for word in words:
        if word.split() != [word]:
            raise ValueError(f"{options.vocab}: {word!r} is not one word.")
    if not words:
        raise ValueError(f"{options.vocab} has no words.")
    bilm = load_bilm(options.model)
    vectors = progress_over(token_vectors(bilm, words), len(words), "encoding", "words")
    return words, bilm.config.lstm.projection_dim, vectors


def _of_corpus(options: Any) -> tuple[list[str], int, Iterable[Any]]:
    """Words, the dimension, and the means of the words' contextual vectors."""
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.distillation import mean_vectors
    from elmo_tf.progress import progress_over
    from elmo_tf.text.corpus import check_tokens, read_sentences
    from elmo_tf.text.reading import sentence_files
    from elmo_tf.text.sentence_files import reported_lines
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

    files = sentence_files(options.corpus)
    check_tokens(files)
    vocabulary = Vocabulary.build(
        progress_over(reported_lines(files, format=None), None, "counting", "lines"),
        options.min_count,
        None if options.max_size is None else options.max_size + len(SPECIAL_TOKENS),
    )
    words = list(vocabulary.tokens[len(SPECIAL_TOKENS) :])
    if not words:
        raise ValueError(f"No word occurs at least {options.min_count} times (--min-count).")
    embedder = Embedder(options.model, options.layers, options.precision)
    sentences = progress_over(read_sentences(files), None, "embedding", "sentences")
    return words, embedder.dim, mean_vectors(embedder, sentences, words)
