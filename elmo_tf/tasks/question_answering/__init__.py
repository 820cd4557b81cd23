"""Questions on passages: JSON of SQuAD 1.1 ─► tokens and the spans of answers ─► scores."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from elmo_tf.files import json_text
from elmo_tf.tasks.question_answering.model import BiDAF
from elmo_tf.tasks.reading import labeled_lines, not_empty
from elmo_tf.tasks.scores import answer_scores
from elmo_tf.tasks.task import Task
from elmo_tf.text.tokenizers import MARKS, Token

# A word character: a letter, a digit, `_`, or a mark that follows its letter.
_W = rf"[\w{MARKS}]"
_NOT = rf"n['\u2019]t(?!{_W})"
# Alternatives in order of precedence. Each character that is not whitespace is in one token.
_TOKEN = re.compile(
    rf"""
      [^\W\d_](?:\.[^\W\d_](?!{_W}))+\.?            # abbreviations: U.S. e.g.
    | \d+(?:[.,:]\d+)*{_W}*                         # numbers: 1,000.5 2:45 1990s 19th
    | {_NOT}                                        # the second token of `did n't`
    | ['\u2019](?:s|re|ve|ll|d|m)(?!{_W})           # the second token of `Song 's`
    | (?!{_NOT}){_W}(?:(?!{_NOT}){_W}|-(?={_W}))*   # words: cat, long-term, mid-1960s
    | \.{{2,}} | -{{2,}} | `` | ''                   # `...`, `--`, quotes of two characters
    | \S                                            # any other character
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Question(NamedTuple):
    """A question on a passage.

    id: unique in its file.
    passage: the text that holds the answer.
    passage_tokens: its tokens, at least one. Questions on the same passage share the list.
    passage_offsets: (start, end) of each of these tokens: `passage[start:end]` is the token.
    question_tokens: tokens of the question, at least one.
    answers: texts of the gold answers. Empty if the file has none.
    answer_spans: (first, last) token of each answer, both inclusive. They cover the answer, which
        may begin or end within a token.
    """

    id: str
    passage: str
    passage_tokens: list[str]
    passage_offsets: list[tuple[int, int]]
    question_tokens: list[str]
    answers: list[str]
    answer_spans: list[tuple[int, int]]


class QuestionAnswering(Task):
    """Questions on passages, with their answers."""

    models: ClassVar = {"bidaf": BiDAF}
    metric = "f1"

    def _read(self, path, config, known):
        questions = read_questions(path)
        for question in questions:
            if not question.answers:
                raise ValueError(f"{path}, question {question.id!r} has no answer.")
        return questions

    def read_inputs(self, path, config, format=None, token_column=None):
        return read_questions(path)

    def texts(self, example):
        return (example.passage_tokens, example.question_tokens)

    def gold(self, example):
        return example.answers

    def labels(self, examples):
        return []

    def target(self, model, example):
        return np.array(example.answer_spans, np.int32)

    def predict(self, model, inputs, examples):
        spans = model.predict_lists(inputs)
        return [
            each.passage[each.passage_offsets[first][0] : each.passage_offsets[last][1]]
            for each, (first, last) in zip(examples, spans, strict=True)
        ]

    def scores(self, gold, predicted):
        return answer_scores(gold, predicted)

    def lines(self, examples, predicted):
        answers = {each.id: text for each, text in zip(examples, predicted, strict=True)}
        yield json_text(answers)


def tokens_with_offsets(text: str) -> list[Token]:
    """Splits text into tokens, nearly as the Penn Treebank does.

    `n't`, `'s`, `'re`, `'ve`, `'ll`, `'d` and `'m` are tokens of their own (`did n't`). Numbers are
    whole (`1,000.5`), and words keep their hyphens (`long-term`), but not after a number
    (`25 - year`). Abbreviations of single letters keep their periods (`U.S.`). Other punctuation is
    split off, one character per token, except `...`, `--` and the quotes made of two characters.
    Meant for languages in Latin script. Only whitespace lies between the tokens.
    """
    return [Token(match.group(), *match.span()) for match in _TOKEN.finditer(text)]


def read_questions(path: str | os.PathLike) -> list[Question]:
    """Reads questions in the JSON format of SQuAD 1.1.

    Args:
        path: a JSON object: `data` is a list of articles with `paragraphs`, each with a `context`
            (the passage) and `qas`, each with `id`, `question` and, optionally, `answers`, each
            with `text` and `answer_start` (int, in code points, from 0). Other fields are ignored.
            `.gz` is decompressed.

    Returns:
        At least one question, in the order of the file.

    Raises:
        ValueError: the file is wrong. The message names the question, or the last one before.
        OSError: the file cannot be read.
    """
    questions: dict[str, Question] = {}
    place, content = os.fspath(path), "".join(labeled_lines(path))
    try:
        for article in json.loads(content)["data"]:
            for paragraph in article["paragraphs"]:
                passage = paragraph["context"]
                tokens, offsets = _tokens(passage)
                for row in paragraph["qas"]:
                    id = row["id"]
                    place = f"{os.fspath(path)}, question {id!r}"
                    if id in questions:
                        raise ValueError("the id occurs twice.")
                    questions[id] = _question(row, passage, tokens, offsets)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{place}: here or next, not the JSON of SQuAD 1.1: {error!r}") from None
    return not_empty(path, list(questions.values()), "questions")


def _question(
    row: Mapping[str, Any], passage: str, tokens: list[str], offsets: list[tuple[int, int]]
) -> Question:
    answers = [(answer["text"], answer["answer_start"]) for answer in row.get("answers", ())]
    spans = [_answer_span(passage, offsets, *answer) for answer in answers]
    texts = [text for text, _ in answers]
    return Question(row["id"], passage, tokens, offsets, _tokens(row["question"])[0], texts, spans)


def _tokens(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The tokens of a text, at least one, and their offsets."""
    tokens = tokens_with_offsets(text)
    if not tokens:
        raise ValueError(f"a text has no token: {text!r}.")
    return [token.text for token in tokens], [(token.start, token.end) for token in tokens]


def _answer_span(
    passage: str, offsets: Iterable[tuple[int, int]], answer: str, start: int
) -> tuple[int, int]:
    """The first and the last token that share characters with an answer."""
    end = start + len(answer)
    if not answer.strip() or start < 0 or passage[start:end] != answer:
        raise ValueError(
            f"the answer {answer[:60]!r} is not at `answer_start` {start} of its passage, counted "
            "in code points from 0."
        )
    covering = [
        place for place, (first, last) in enumerate(offsets) if first < end and last > start
    ]
    return covering[0], covering[-1]
