"""Compares the tokenizers of languages with the tokens of treebanks: rows of the languages guide.

    python benchmarks/language_tokenizers.py ko=ko_kaist-ud-dev.conllu ja=ja_gsd-ud-test.conllu

The text of a treebank's sentences is tokenized sentence by sentence, on one core.
"""

import argparse
import itertools
import os
import time
from pathlib import Path

from elmo_tf.text.sentence_files import column_sentences
from elmo_tf.text.tokenizers import LanguageTokenizer

_SECONDS = 5  # of the measurement of speed
_Spans = set[tuple[int, int]]


def main() -> None:
    """Prints one row of a table per file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="LANGUAGE=FILE", help="a CoNLL-U file")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for language, _, file in (each.partition("=") for each in parser.parse_args().files):
        start = time.perf_counter()
        tokenizer = LanguageTokenizer(language)
        tokenizer("")
        loaded = time.perf_counter() - start
        sentences = [_text_and_spans(file, rows) for rows in column_sentences(file, "conllu")]
        score = _f1([(spans, _spans(tokenizer(text))) for text, spans in sentences])
        rate = _rate(tokenizer, [text for text, _ in sentences])
        print(
            f"| `{language}` | {Path(file).stem}, {len(sentences)} sentences | {score:.1f} "
            f"| {rate:,.0f} | {loaded:.1f} |"
        )


def _text_and_spans(file: str, rows: list) -> tuple[str, _Spans]:
    """The text of a sentence, and the places of its words."""
    text, spans = "", set()
    for row in rows:
        spans.add((len(text), len(text) + len(row.fields[1])))
        text += row.fields[1] + ("" if "SpaceAfter=No" in row.fields[9] else " ")
    return text, spans


def _spans(sentences: list) -> _Spans:
    return {(token.start, token.end) for sentence in sentences for token in sentence}


def _f1(pairs: list[tuple[_Spans, _Spans]]) -> float:
    """The F1 of places of tokens, in percent."""
    common = sum(len(gold & found) for gold, found in pairs)
    return 200 * common / sum(len(gold) + len(found) for gold, found in pairs)


def _rate(tokenizer: LanguageTokenizer, texts: list[str]) -> float:
    """Tokens per second."""
    num_tokens, start = 0, time.perf_counter()
    for text in itertools.cycle(texts):
        num_tokens += sum(map(len, tokenizer(text)))
        if time.perf_counter() - start > _SECONDS:
            return num_tokens / (time.perf_counter() - start)
    raise ValueError("The file has no sentence.")


if __name__ == "__main__":
    main()
