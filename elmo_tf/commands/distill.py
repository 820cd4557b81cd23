"""The subcommand `distill`: a biLM ─► static word vectors."""

from collections.abc import Callable, Iterable
from typing import Any

from absl import logging

from elmo_tf.commands.options import add_choice, add_model, add_overwrite, add_precision, at_least_1


def add_command(add: Callable) -> None:
    """Adds `elmo-tf distill`."""
    parser = add(
        "distill",
        _distill,
        "write one static vector per word, in word2vec's format",
        "elmo-tf distill small-en --corpus text.txt --output vectors.txt",
    )
    add_model(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--vocab",
        metavar="FILE",
        help="words, one per line: the vectors are those of the biLM's layer 0, without context",
    )
    source.add_argument(
        "--corpus",
        nargs="+",
        metavar="GLOB",
        help="text, one tokenized sentence per line: the vector of a word is the mean over its "
        "occurrences",
    )
    parser.add_argument(
        "--output",
        required=True,
        metavar="FILE",
        help="word2vec's text format, or its binary format if the name ends in .bin",
    )
    group = parser.add_argument_group("with --corpus")
    add_choice(group, "--layers", ("average", "top"), "vectors to average, see elmo-tf embed")
    group.add_argument("--min-count", **at_least_1(1), help="leave out words rarer than N")
    group.add_argument(
        "--max-size", **at_least_1(), help="most frequent words to keep (default: all)"
    )
    add_precision(group)
    names = ("layers", "min_count", "max_size", "precision")
    defaults = {name: parser.get_default(name) for name in names}
    parser.set_defaults(corpus_defaults=defaults)
    add_overwrite(parser)


def _distill(arguments: Any) -> None:
    from elmo_tf.embedding.distillation import write_word_vectors
    from elmo_tf.files import refuse_file

    if arguments.vocab is not None and any(
        getattr(arguments, name) != default for name, default in arguments.corpus_defaults.items()
    ):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in arguments.corpus_defaults)
        arguments.refuse_call(f"{options} are only for --corpus: layer 0 has no context")
    refuse_file(arguments.output, arguments.overwrite)
    how = _of_corpus if arguments.vocab is None else _of_vocabulary
    words, dim, vectors = how(arguments)
    write_word_vectors(arguments.output, words, vectors, dim)
    logging.info("%s holds %s vectors of %d dimensions.", arguments.output, f"{len(words):,}", dim)


def _of_vocabulary(arguments: Any) -> tuple[list[str], int, Iterable[Any]]:
    """Words, the dimension, and the words' vectors of layer 0."""
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.embedding.distillation import token_vectors
    from elmo_tf.progress import progress_over
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS, read_lines

    lines = (line.strip() for line in read_lines(arguments.vocab))
    words = list(dict.fromkeys(word for word in lines if word and word not in SPECIAL_TOKENS))
    for word in words:
        if word.split() != [word]:
            raise ValueError(f"{arguments.vocab}: {word!r} is not one word.")
    if not words:
        raise ValueError(f"{arguments.vocab} has no words.")
    bilm = load_bilm(arguments.model)
    vectors = progress_over(token_vectors(bilm, words), len(words), "encoding", "words")
    return words, bilm.config.lstm.projection_dim, vectors


def _of_corpus(arguments: Any) -> tuple[list[str], int, Iterable[Any]]:
    """Words, the dimension, and the means of the words' contextual vectors."""
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.distillation import mean_vectors
    from elmo_tf.progress import progress_over
    from elmo_tf.text.corpus import read_sentences, reported_lines, text_files
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

    files = text_files(arguments.corpus)
    vocabulary = Vocabulary.build(
        progress_over(reported_lines(files), None, "counting", "lines"),
        arguments.min_count,
        None if arguments.max_size is None else arguments.max_size + len(SPECIAL_TOKENS),
    )
    words = list(vocabulary.tokens[len(SPECIAL_TOKENS) :])
    if not words:
        raise ValueError(f"No word occurs at least {arguments.min_count} times (--min-count).")
    embedder = Embedder(arguments.model, arguments.layers, arguments.precision)
    sentences = progress_over(read_sentences(files), None, "embedding", "sentences")
    return words, embedder.dim, mean_vectors(embedder, sentences, words)
