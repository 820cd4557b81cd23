"""Semantic roles: the roles of tokens for a predicate of their sentence."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from absl import logging

from elmo_tf.tasks.scores import role_scores
from elmo_tf.tasks.semantic_roles.model import SRLTagger
from elmo_tf.tasks.semantic_roles.reader import (
    LABELS_FOLLOW,
    NO_PREDICATE,
    Proposition,
    read_proposition_lines,
    read_propositions,
)
from elmo_tf.tasks.tag_schemes import BRACKETS, brackets_of_bio, scheme_tags, span_types
from elmo_tf.tasks.task import Task, file_sentences, first_line
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import format_of

MAX_TOKENS = 100  # of training examples; He et al. 2017
_TO_FIND = -1  # the predicate of a plain sentence


class SemanticRoles(Task):
    """Predicates in their sentences, with one BIO tag per token.

    A sentence without a predicate is an example too, so that output files have all sentences. It is
    neither trained on nor scored.
    """

    models: ClassVar[Mapping[str, type[TaskModel]]] = {"srl": SRLTagger}
    metric = "f1"
    input_options: ClassVar = ("format",)
    output_suffixes: ClassVar = ("", ".words")

    def _read(self, path, config, known):
        # Roles that the model does not know are allowed, and count as missed.
        propositions = self.read_inputs(path, config, known)
        if propositions and is_plain(propositions[0]):
            propositions = read_propositions(path, all_sentences=True)  # names the line
        for proposition in propositions:
            if proposition.predicate is not None and not proposition.tags:
                sentence = " ".join(proposition.tokens)[:80]
                raise ValueError(f"{path}: a proposition has no roles: {sentence!r}.")
        return propositions

    def read_inputs(self, path, config, known, format=None, token_column=None):
        """Reads columns, lines that begin with the index of a predicate, or plain sentences."""
        line = first_line(path)
        if format in (None, "text") and _are_propositions(path, line):
            return read_proposition_lines(path)
        name = format or format_of(path)
        if name == "conll" or (format is None and _is_row(line)):
            return read_propositions(path, all_sentences=True)
        sentences = file_sentences(path, name, token_column)
        return [plain_sentence(sentence.tokens) for sentence in sentences]

    def for_training(self, examples, config):
        propositions = [example for example in examples if example.predicate is not None]
        return self._not_longer(propositions, config.max_tokens or MAX_TOKENS)

    def features(self, example):
        return {"predicate": example.predicate or 0}

    def gold(self, example):
        return None if example.predicate is None else example.tags

    def labels(self, examples):
        tags = (tag for example in examples for tag in example.tags)
        return scheme_tags(span_types(tags), "BIO")

    def target(self, model, example):
        return model.label_ids(example.tags)

    def predict(self, model, inputs, examples):
        """The tags of each proposition; None for a sentence without a predicate."""
        pairs = zip(examples, model.predict_lists(inputs), strict=True)
        return [None if example.predicate is None else tags for example, tags in pairs]

    def scores(self, gold, predicted):
        pairs = [pair for pair in zip(gold, predicted, strict=True) if pair[0] is not None]
        return role_scores([tags for tags, _ in pairs], [tags for _, tags in pairs])

    def outputs(self, examples, predicted):
        return self.lines(examples, predicted), _words(examples)

    def lines(self, examples, predicted):
        pairs = zip(examples, predicted, strict=True)
        # Propositions of a sentence share their list of tokens.
        for _, group in itertools.groupby(pairs, key=lambda pair: id(pair[0].tokens)):
            pairs_of_sentence = list(group)
            tokens = pairs_of_sentence[0][0].tokens
            propositions = [pair for pair in pairs_of_sentence if pair[0].predicate is not None]
            verbs = [NO_PREDICATE] * len(tokens)
            for proposition, _ in propositions:
                verbs[proposition.predicate] = _verb(proposition)
            columns = [brackets_of_bio(tags) for _, tags in propositions]
            yield from map("\t".join, zip(verbs, *columns, strict=True))
            yield ""


def plain_sentence(tokens: list[str]) -> Proposition:
    """A sentence whose predicates are to be found."""
    return Proposition(tokens, _TO_FIND, [], "")


def is_plain(example: Proposition) -> bool:
    """Whether the predicates of an example are to be found."""
    return example.predicate == _TO_FIND


def _are_propositions(path: str, line: str) -> bool:
    """Whether each line of a file, whose first line is `line`, has the index of a predicate."""
    fields = line.split()
    # A number in a sentence of columns is no index.
    if not fields or not fields[0].isdecimal() or "*" in fields[-1] or fields[1:] == [NO_PREDICATE]:
        return False
    lines = (other.split() for other in read_lines(path) if other.strip())
    if LABELS_FOLLOW in fields or all(other[0].isdecimal() for other in lines):
        return True
    message = "%s: read as plain sentences, because not all lines begin with a number, an index."
    logging.warning(message, path)
    return False


def _is_row(line: str) -> bool:
    """Whether the first line of a file is one of columns; also "", which their reader refuses."""
    fields = line.split()
    has_brackets = any(map(BRACKETS.fullmatch, fields[1:])) or fields[1:] == [NO_PREDICATE]
    return not fields or "\t" in line or has_brackets or line.startswith("#begin document")


def _words(examples: Sequence[Proposition]) -> Iterable[str]:
    """The tokens of each sentence, which the file of roles lacks."""
    for _, group in itertools.groupby(examples, key=lambda example: id(example.tokens)):
        yield from next(group).tokens
        yield ""


def _verb(proposition: Proposition) -> str:
    """The lemma, or else the predicate's token; "[-]" for "-", which marks other tokens."""
    verb = proposition.lemma or proposition.tokens[proposition.predicate]
    return "[-]" if verb == NO_PREDICATE else verb
