"""Scores answers and coreference that need no training, as a lower bound for models.

    python examples/trivial_baselines.py --questions dev.json
    python examples/trivial_baselines.py --documents dev/*.conll

Requires the extra `tasks`: pip install '.[tasks]'
"""

import argparse
import json
from collections.abc import Iterator

from elmo_tf.tasks.coreference import Document, Mention, read_documents
from elmo_tf.tasks.question_answering import Question, read_questions
from elmo_tf.tasks.scores import answer_scores, coreference_scores

_PRONOUNS = {
    *("he", "him", "his", "himself", "she", "her", "hers", "herself", "it", "its", "itself"),
    *("they", "them", "their", "theirs", "themselves"),
}
_ANSWER_TOKENS = 3  # about the mean of SQuAD


def first_tokens(question: Question) -> str:
    """The first tokens of the passage."""
    last = min(_ANSWER_TOKENS, len(question.passage_tokens)) - 1
    return question.passage[: question.passage_offsets[last][1]]


def after_question_words(question: Question) -> str:
    """The tokens behind the part of the passage that shares most words with the question."""
    words = {token.lower() for token in question.question_tokens}
    width = len(question.question_tokens)
    shared = [token.lower() in words for token in question.passage_tokens]
    starts = range(max(len(shared) - width - _ANSWER_TOKENS, 0) + 1)
    start = max(starts, key=lambda place: sum(shared[place : place + width]))
    first = min(start + width, len(shared) - 1)
    last = min(first + _ANSWER_TOKENS, len(shared)) - 1
    offsets = question.passage_offsets
    return question.passage[offsets[first][0] : offsets[last][1]]


def linked_pronouns(document: Document) -> list[list[Mention]]:
    """Equal names are an entity, and each pronoun belongs to the nearest name before it."""
    entities: dict[str, list[Mention]] = {}
    nearest = None
    for first, last, text in _names_and_pronouns(document):
        if text.lower() not in _PRONOUNS:
            nearest = text
        if nearest is not None:
            entities.setdefault(nearest, []).append((first, last))
    return list(entities.values())


def _names_and_pronouns(document: Document) -> Iterator[tuple[int, int, str]]:
    """Pronouns, and runs of capitalized tokens that do not begin a sentence, in order."""
    start = 0
    for sentence in document.sentences:
        position = 0
        while position < len(sentence):
            end = position + 1
            if sentence[position].lower() in _PRONOUNS:
                yield start + position, start + position, sentence[position]
            elif position and sentence[position].istitle():
                while end < len(sentence) and sentence[end].istitle():
                    end += 1
                yield start + position, start + end - 1, " ".join(sentence[position:end])
            position = end
        start += len(sentence)


def main() -> None:
    """Prints the scores."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--questions", metavar="FILE", help="JSON, as in SQuAD 1.1")
    parser.add_argument("--documents", nargs="+", metavar="FILE", help="CoNLL columns")
    arguments = parser.parse_args()
    if arguments.questions:
        questions = read_questions(arguments.questions)
        gold = [question.answers for question in questions]
        for baseline in (first_tokens, after_question_words):
            scores = answer_scores(gold, [baseline(question) for question in questions])
            print(json.dumps({"baseline": baseline.__name__, **scores}))
    if arguments.documents:
        documents = [one for file in arguments.documents for one in read_documents(file)]
        gold = [document.entities for document in documents]
        scores = coreference_scores(gold, [linked_pronouns(document) for document in documents])
        print(json.dumps({"baseline": linked_pronouns.__name__, **scores}))


if __name__ == "__main__":
    main()
