"""The subcommands that ask a language model: `evaluate`, `score` and `substitutes`."""

import bisect
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from elmo_tf.commands.options import (
    STDIN,
    LanguageModel,
    TextFiles,
    TokenizerName,
    WrongCallError,
    print_json,
    stdin_in_a_file,
    text_sources,
)

_MARKED = re.compile(r"\*\*(.+?)\*\*")


def evaluate(checkpoint: LanguageModel, files: TextFiles, /) -> None:
    """Measure perplexity per token, with the full softmax."""
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.perplexity import perplexity
    from elmo_tf.text.reading import checked_files

    with stdin_in_a_file(files) as patterns:
        found = checked_files(patterns)
        print_json(perplexity(load_language_model(checkpoint), found))


def score(
    checkpoint: LanguageModel,
    files: TextFiles,
    /,
    *,
    per_token: bool = False,
    tokenizer: TokenizerName = None,
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
    from elmo_tf.text.tokenizers import token_sentences, tokenizer_of

    sources = text_sources(files)
    model = load_language_model(checkpoint)
    split = tokenizer_of(tokenizer, model.bilm.config.tokenizer)
    sentences = token_sentences(reported_lines(sources, format=None), split)
    # On a terminal the printed results show the progress.
    with progress(None, "scoring", "sentences", shown=not sys.stdout.isatty()) as meter:
        for score in sentence_scores(model, sentences):
            means = {name: float(bits.mean()) for name, bits in score.surprisals.items()}
            content = {"tokens": score.num_targets, **score.log_probs, "surprisal": means}
            content |= {"unknown_tokens": score.num_unknown, "known": score.known_log_probs}
            if per_token:
                content["words"] = _words(score)
            print_json(content)
            meter.update(1)


def _words(score: Any) -> list[dict[str, Any]]:
    """Log probabilities and surprisals of each word and boundary of a sentence, in text order."""
    from elmo_tf.text.vocabulary import BOS_TOKEN, EOS_TOKEN

    words = [{"token": token} for token in (BOS_TOKEN, *score.tokens, EOS_TOKEN)]
    for direction, values in score.token_log_probs.items():
        targets = words[1:] if direction == "forward" else words[:-1]
        for word, value, bits in zip(targets, values, score.surprisals[direction], strict=True):
            word[direction] = value
            word.setdefault("surprisal", {})[direction] = bits
    for word, is_unknown in zip(words[1:-1], score.is_unknown, strict=True):
        if is_unknown:
            word["unknown"] = True
    return [word for word in words if len(word) > 1]


def substitutes(
    checkpoint: LanguageModel,
    sentences: Annotated[
        tuple[str, ...],
        Parameter(
            help="whitespace-separated tokens, some of them marked as `**token**`; - is stdin, one "
            "sentence per line"
        ),
    ],
    /,
    *,
    position: Annotated[tuple[NonNegativeInt, ...], Parameter(consume_multiple=False)] = (),
    tokenizer: TokenizerName = None,
    top: PositiveInt = 10,
) -> None:
    """Print the most probable tokens at positions of sentences, as JSON lines.

    Args:
        position: position of a token in every sentence, from 0; repeatable; by default the marked
            tokens.
        top: number of substitutes per position.
    """
    from elmo_tf.checkpoints.load import load_config, load_language_model
    from elmo_tf.evaluation.scoring import substitutes
    from elmo_tf.text.tokenizers import tokenizer_of

    split = tokenizer and tokenizer_of(tokenizer, load_config(checkpoint).tokenizer)
    if not (queries := list(_queries(sentences, position, split))):
        return
    found = substitutes(load_language_model(checkpoint), *zip(*queries, strict=True), top)
    for index, ((tokens, positions), of_sentence) in enumerate(zip(queries, found, strict=True)):
        for place, best in zip(positions, of_sentence, strict=True):
            rows = [
                {"token": substitute.token, **substitute.log_probs, "total": substitute.total}
                for substitute in best
            ]
            where = {"sentence": index, "position": place, "token": tokens[place]}
            print_json({**where, "substitutes": rows})


def _queries(
    sentences: Sequence[str], positions: Sequence[int], tokenizer: Any
) -> Iterator[tuple[list[str], Sequence[int]]]:
    """Yields the tokens of each sentence and the positions to fill; empty for an empty line.

    Of several sentences of raw text, those without such a position are left out.
    """
    from elmo_tf.text.counting import reported_lines

    for sentence in sentences:
        for line in reported_lines([sys.stdin.buffer]) if sentence == STDIN else [sentence]:
            found = [*_marked(line, tokenizer)]
            if positions:
                found = [(tokens, positions if tokens else ()) for tokens, _ in found]
            elif line.strip() and not any(places for _, places in found):
                raise WrongCallError(
                    f"mark a token of {line.strip()!r} as **token**, or name its position "
                    "(--position)"
                )
            yield from (each for each in found if each[1] or tokenizer is None)


def _marked(text: str, tokenizer: Any) -> Iterator[tuple[list[str], list[int]]]:
    """The tokens of each sentence without their marks, and the positions of the marked ones."""
    if tokenizer is None:
        words = [(word, _MARKED.fullmatch(word)) for word in text.split()]
        marked = [place for place, (_, match) in enumerate(words) if match]
        yield [match[1] if match else word for word, match in words], marked
        return
    parts = _MARKED.split(text)  # every other one is marked
    ends = list(itertools.accumulate(map(len, parts)))
    for sentence in tokenizer("".join(parts)):
        places = (bisect.bisect_right(ends, token.start) for token in sentence)
        marked = [position for position, place in enumerate(places) if place % 2]
        yield [token.text for token in sentence], marked
