"""The subcommand `score`: the log probability of each sentence, and the surprisal of its tokens."""

import sys
from typing import Any

from elmo_tf.commands.options import (
    BatchTokens,
    LanguageModel,
    TextFiles,
    print_json,
    text_sources,
)


def score(
    checkpoint: LanguageModel,
    files: TextFiles,
    /,
    *,
    per_token: bool = False,
    batch_tokens: BatchTokens = 4096,
) -> None:
    """Print the log probability and the surprisal of each sentence, as JSON lines.

    Args:
        per_token: also print each token: log probability (natural logarithm), surprisal (bits), and
            whether it is unknown.
    """
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.scoring import sentence_scores
    from elmo_tf.logs import progress
    from elmo_tf.text.counting import reported_lines

    sources = text_sources(files)
    model = load_language_model(checkpoint)
    lines = reported_lines(sources, format=None)
    # On a terminal the printed results show the progress.
    with progress(None, "scoring", "sentences", shown=not sys.stdout.isatty()) as meter:
        for score in sentence_scores(model, lines, batch_tokens):
            content = {"tokens": score.num_targets, **score.log_probs}
            means = {name: float(bits.mean()) for name, bits in score.surprisals.items()}
            content |= {"surprisal": means, "unknown_tokens": score.num_unknown}
            content["known"] = score.known_log_probs
            if per_token:
                content["words"] = _words(score)
            print_json(content)
            meter.update(1)


def _words(score: Any) -> list[dict[str, Any]]:
    """Log probabilities and surprisals of each word and boundary of a sentence, in text order."""
    from elmo_tf.text.vocabulary import BOS_TOKEN, EOS_TOKEN

    words: list[dict[str, Any]] = [
        {"token": token} for token in (BOS_TOKEN, *score.tokens, EOS_TOKEN)
    ]
    for direction, values in score.token_log_probs.items():
        targets = words[1:] if direction == "forward" else words[:-1]
        bits = score.surprisals[direction].tolist()
        for word, value, surprisal in zip(targets, values.tolist(), bits, strict=True):
            word[direction] = value
            word.setdefault("surprisal", {})[direction] = surprisal
    for word, is_unknown in zip(words[1:-1], score.is_unknown, strict=True):
        if is_unknown:
            word["unknown"] = True
    return [word for word in words if len(word) > 1]
