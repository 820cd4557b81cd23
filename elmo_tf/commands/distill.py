"""The subcommand `distill`: a biLM ─► static word vectors."""

from collections.abc import Iterable
from typing import Any, Literal

from absl import logging
from cyclopts.types import PositiveInt

from elmo_tf.commands.options import Model, Overwrite, Precision, WrongCallError


def distill(
    model: Model,
    /,
    *,
    output: str,
    vocab: str | None = None,
    corpus: tuple[str, ...] = (),
    layers: Literal["average", "top"] = "average",
    min_count: PositiveInt = 1,
    max_size: PositiveInt | None = None,
    precision: Precision = "float32",
    overwrite: Overwrite = False,
) -> None:
    """Write one static vector per word, in word2vec's text format.

    Args:
        output: a file of word2vec's text format.
        vocab: words, one per line: the vectors are those of the biLM's layer 0, without context.
        corpus: text, one tokenized sentence per line (files or patterns): the vector of a word is
            the mean over its occurrences.
        layers: with --corpus: vectors to average, see elmo-tf embed.
        min_count: with --corpus: leave out rarer words.
        max_size: with --corpus: most frequent words to keep; all by default.
    """
    from elmo_tf.evaluation.stored_vectors import write_word_vectors
    from elmo_tf.files import refuse_file

    if bool(vocab) == bool(corpus):
        raise WrongCallError("pass one of --vocab and --corpus")
    if vocab and (layers, min_count, max_size, precision) != ("average", 1, None, "float32"):
        raise WrongCallError(
            "--layers, --min-count, --max-size, --precision are only for --corpus: layer 0 has no "
            "context"
        )
    refuse_file(output, overwrite)
    words, dim, vectors = (
        _of_vocabulary(model, vocab)
        if vocab
        else _of_corpus(model, corpus, layers, min_count, max_size, precision)
    )
    write_word_vectors(output, words, vectors, dim)
    logging.info("%s holds %s vectors of %d dimensions.", output, f"{len(words):,}", dim)


def _of_vocabulary(model: str, vocab: str) -> tuple[list[str], int, Iterable[Any]]:
    """Words, the dimension, and the words' vectors of layer 0."""
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.evaluation.stored_vectors import layer_0_vectors
    from elmo_tf.logs import progress_over
    from elmo_tf.text.reading import read_lines
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS

    lines = (line.strip() for line in read_lines(vocab))
    words = list(dict.fromkeys(word for word in lines if word and word not in SPECIAL_TOKENS))
    for word in words:
        if word.split() != [word]:
            raise ValueError(f"{vocab}: {word!r} is not one word.")
    if not words:
        raise ValueError(f"{vocab} has no words.")
    bilm = load_bilm(model)
    vectors = progress_over(layer_0_vectors(bilm, words), len(words), "encoding", "words")
    return words, bilm.config.lstm.projection_dim, vectors


def _of_corpus(
    model: str,
    corpus: tuple[str, ...],
    layers: str,
    min_count: int,
    max_size: int | None,
    precision: str,
) -> tuple[list[str], int, Iterable[Any]]:
    """Words, the dimension, and the means of the words' contextual vectors."""
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.stored_vectors import mean_vectors
    from elmo_tf.logs import progress_over
    from elmo_tf.text.corpus import read_sentences
    from elmo_tf.text.counting import reported_lines
    from elmo_tf.text.reading import sentence_files
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

    files = sentence_files(corpus)
    vocabulary = Vocabulary.build(
        progress_over(reported_lines(files, format=None), None, "counting", "lines"),
        min_count,
        None if max_size is None else max_size + len(SPECIAL_TOKENS),
    )
    words = list(vocabulary.tokens[len(SPECIAL_TOKENS) :])
    if not words:
        raise ValueError(f"No word occurs at least {min_count} times (--min-count).")
    embedder = Embedder(model, layers, precision)
    sentences = progress_over(read_sentences(files), None, "embedding", "sentences")
    return words, embedder.dim, mean_vectors(embedder, sentences, words)
