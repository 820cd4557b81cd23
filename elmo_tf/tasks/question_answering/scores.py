"""Scores of extracted answers, as the evaluation script of SQuAD 1.1 counts them."""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_scores(gold: Sequence[Sequence[str]], predicted: Sequence[str | None]) -> dict:
    """Scores answers by exact match and by the tokens that they share with a gold answer.

    Answers are compared as `normalized_answer` gives them. Each score is the maximum over the gold
    answers of a question.

    Args:
        gold: the texts of the gold answers of each question, at least one.
        predicted: one text for each question. None, no prediction, scores 0.

    Returns:
        "em", the share of exact matches, and "f1", both means over all questions, 0 to 1; and
        "questions", their number.

    Source: Rajpurkar et al. 2016, section 6.1, and evaluate-v1.1.py.
    """
    pairs = [pair for pair in zip(gold, predicted, strict=True) if pair[1] is not None]
    em, f1 = (
        sum(max(score(answer, text) for answer in answers) for answers, text in pairs)
        for score in (_em, _f1)
    )
    num_questions = max(len(gold), 1)
    return {"em": em / num_questions, "f1": f1 / num_questions, "questions": len(gold)}


def normalized_answer(text: str) -> str:
    """Text in lower case, without ASCII punctuation and English articles, with single spaces.

    Punctuation is deleted first: "a-b" becomes "ab", and keeps its "a".
    """
    words = _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION))
    return " ".join(words.split())


def _em(gold: str, predicted: str) -> float:
    return float(normalized_answer(gold) == normalized_answer(predicted))


def _f1(gold: str, predicted: str) -> float:
    """F1 of the two multisets of tokens; 0 without tokens, even if both have none."""
    counts = [Counter(normalized_answer(text).split()) for text in (gold, predicted)]
    shared = (counts[0] & counts[1]).total()
    return 2 * shared / max(counts[0].total() + counts[1].total(), 1)
