"""The subcommand `score`: the log probability of each sentence, and the surprisal of its tokens."""

import sys
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import (
    add_batch_tokens,
    add_files,
    add_flag,
    add_language_model,
    print_json,
    text_sources,
)


def add_command(add: Callable) -> None:
    """Adds `elmo-tf score`."""
    parser = add(
        "score",
        _score,
        "print the log probability and the surprisal of each sentence, as JSON lines",
        "elmo-tf score small-en text.txt --per-token",
    )
    add_language_model(parser)
    add_files(parser)
    add_flag(
        parser,
        "--per-token",
        "also print each token: log probability (natural logarithm), surprisal (bits), and whether "
        "it is unknown",
    )
    add_batch_tokens(parser)


def _score(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.scoring import sentence_scores
    from elmo_tf.progress import progress
    from elmo_tf.text.corpus import reported_lines

    sources = text_sources(arguments.files)
    model = load_language_model(arguments.checkpoint)
    lines = reported_lines(sources)
    # On a terminal the printed results show the progress.
    with progress(None, "scoring", "sentences", shown=not sys.stdout.isatty()) as meter:
        for score in sentence_scores(model, lines, arguments.batch_tokens):
            unknown = {"unknown_tokens": score.num_unknown, "known": score.known_log_probs}
            means = {name: float(bits.mean()) for name, bits in score.surprisals.items()}
            words = {"words": _words(score)} if arguments.per_token else {}
            print_json(
                {
                    "tokens": score.num_targets,
                    **score.log_probs,
                    "surprisal": means,
                    **unknown,
                    **words,
                }
            )
            meter.update(1)


def _words(score: Any) -> list[dict[str, Any]]:
    """Log probabilities and surprisals of each word and boundary of a sentence, in text order."""
    from elmo_tf.text.vocabulary import BOS_TOKEN, EOS_TOKEN

    words: list[dict[str, Any]] = [
        {"token": token} for token in (BOS_TOKEN, *score.tokens, EOS_TOKEN)
    ]
    first = {"forward": 1, "backward": 0}
    for direction, values in score.token_log_probs.items():
        bits = score.surprisals[direction].tolist()
        for word, *found in zip(words[first[direction] :], values.tolist(), bits, strict=False):
            word[direction], word.setdefault("surprisal", {})[direction] = found
    for word, is_unknown in zip(words[1:-1], score.is_unknown, strict=True):
        if is_unknown:
            word["unknown"] = True
    return [word for word in words if len(word) > 1]
