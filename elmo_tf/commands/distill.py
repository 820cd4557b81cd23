"""The subcommand `distill`: a biLM ─► static word vectors."""

from collections.abc import Callable
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
    add_overwrite(parser)


def _distill(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.distillation import mean_vectors, token_vectors, write_word_vectors
    from elmo_tf.files import refuse_existing
    from elmo_tf.progress import progress_over
    from elmo_tf.text.corpus import read_sentences, text_files
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, read_lines
    from elmo_tf.threads import share_cores_for_embedding

    refuse_existing(arguments.output, arguments.overwrite)
    share_cores_for_embedding()
    if arguments.vocab is not None:
        lines = (line.strip() for line in read_lines(arguments.vocab))
        words = list(dict.fromkeys(word for word in lines if word and word not in SPECIAL_TOKENS))
        for word in words:
            if word.split() != [word]:
                raise ValueError(f"{arguments.vocab}: {word!r} is not one word.")
        bilm = load_bilm(arguments.model)
        dim = bilm.config.lstm.projection_dim
        vectors = progress_over(token_vectors(bilm, words), len(words), "encoding", "words")
    else:
        files = text_files(arguments.corpus)
        vocabulary = Vocabulary.build(
            progress_over(map(" ".join, read_sentences(files)), None, "counting", "sentences"),
            arguments.min_count,
            None if arguments.max_size is None else arguments.max_size + len(SPECIAL_TOKENS),
        )
        words = list(vocabulary.tokens[len(SPECIAL_TOKENS) :])
        embedder = Embedder(arguments.model, arguments.layers, arguments.precision)
        dim = embedder.dim
        sentences = progress_over(read_sentences(files), None, "embedding", "sentences")
        vectors = mean_vectors(embedder, sentences, words)
    write_word_vectors(arguments.output, words, vectors, dim)
    logging.info("%s holds %s vectors of %d dimensions.", arguments.output, f"{len(words):,}", dim)
