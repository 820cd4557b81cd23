"""The subcommand `distill`: a biLM ─► static word vectors."""

from typing import Literal

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
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.embedding.embedder import Embedder
    from elmo_tf.evaluation import stored_vectors
    from elmo_tf.files import refuse_file
    from elmo_tf.logs import progress_over
    from elmo_tf.text.corpus import read_sentences
    from elmo_tf.text.reading import checked_files

    if bool(vocab) == bool(corpus):
        raise WrongCallError("pass one of --vocab and --corpus")
    if vocab and (layers, min_count, max_size, precision) != ("average", 1, None, "float32"):
        raise WrongCallError(
            "--layers, --min-count, --max-size, --precision are only for --corpus: layer 0 has no "
            "context"
        )
    refuse_file(output, overwrite)
    if vocab:
        words = _words_in(vocab)
        bilm = load_bilm(model)
        dim = bilm.config.lstm.projection_dim
        vectors = stored_vectors.layer_0_vectors(bilm, words)
        vectors = progress_over(vectors, len(words), "encoding", "words")
    else:
        files = checked_files(corpus)
        words = _frequent_words(files, min_count, max_size)
        embedder = Embedder(model, layers, precision)
        dim = embedder.dim
        sentences = progress_over(read_sentences(files), None, "embedding", "sentences")
        vectors = stored_vectors.mean_vectors(embedder, sentences, words)
    stored_vectors.write_word_vectors(output, words, vectors, dim)
    logging.info("%s holds %s vectors of %d dimensions.", output, f"{len(words):,}", dim)


def _words_in(vocab: str) -> list[str]:
    from elmo_tf.text.reading import read_lines
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS

    lines = (line.strip() for line in read_lines(vocab))
    words = list(dict.fromkeys(word for word in lines if word and word not in SPECIAL_TOKENS))
    for word in words:
        if word.split() != [word]:
            raise ValueError(f"{vocab}: {word!r} is not one word.")
    if not words:
        raise ValueError(f"{vocab} has no words.")
    return words


def _frequent_words(files: list[str], min_count: int, max_size: int | None) -> list[str]:
    from elmo_tf.text.corpus import count_files
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

    text = count_files(files)
    text.report()
    vocabulary = Vocabulary.of_counts(text.types, min_count)
    words = list(vocabulary.tokens[len(SPECIAL_TOKENS) :][:max_size])
    if not words:
        raise ValueError(f"No word occurs at least {min_count} times (--min-count).")
    return words
