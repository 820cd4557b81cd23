"""The subcommand `score`: the log probability of each sentence, and the surprisal of its tokens."""

import sys
from typing import Any

from elmo_tf.commands.options import (
    BatchTokens,
    LanguageModel,
    TextFiles,
    print_json,
    subcommand,
    text_sources,
)
from elmo_tf.settings import checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _ScoreOptions:
    checkpoint: LanguageModel
    files: TextFiles
    per_token: bool = setting(
        False,
        "also print each token: log probability (natural logarithm), surprisal (bits), and whether "
        "it is unknown",
    )
    batch_tokens: BatchTokens = 4096


@subcommand("elmo-tf score small-en text.txt --per-token")
def score(options: _ScoreOptions) -> None:
    """Print the log probability and the surprisal of each sentence, as JSON lines."""
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.scoring import sentence_scores
    from elmo_tf.progress import progress
    from elmo_tf.text.corpus import reported_lines

    sources = text_sources(options.files)
    model = load_language_model(options.checkpoint)
    lines = reported_lines(sources)
    # On a terminal the printed results show the progress.
    with progress(None, "scoring", "sentences", shown=not sys.stdout.isatty()) as meter:
        for score in sentence_scores(model, lines, options.batch_tokens):
            unknown = {"unknown_tokens": score.num_unknown, "known": score.known_log_probs}
            means = {name: float(bits.mean()) for name, bits in score.surprisals.items()}
            words = {"words": _words(score)} if options.per_token else {}
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
        for word, *values_of_word in zip(
            words[first[direction] :], values.tolist(), bits, strict=False
        ):
            word[direction], word.setdefault("surprisal", {})[direction] = values_of_word
    for word, is_unknown in zip(words[1:-1], score.is_unknown, strict=True):
        if is_unknown:
            word["unknown"] = True
    return [word for word in words if len(word) > 1]
