"""Semantic role labeling: the roles of tokens for one predicate of their sentence."""

import itertools
from typing import ClassVar

from elmo_tf.tasks.semantic_roles.reader import (
    NO_PREDICATE,
    Layout,
    Proposition,
    brackets_of_bio,
    read_proposition_lines,
    read_propositions,
)
from elmo_tf.tasks.semantic_roles.scores import role_scores
from elmo_tf.tasks.specification import TaskSpecification, first_line
from elmo_tf.tasks.tag_schemes import scheme_tags, span_types

_MAX_TOKENS = 100  # He et al. 2017
# The props files of CoNLL-2005: verbs and roles. The words are in other files.
_PROPS = Layout(token=1, roleset=1, roles=2)


class SemanticRoles(TaskSpecification):
    """Predicates in their sentences, with one BIO tag per token.

    A sentence without a predicate is an example too, so that output files have all sentences. It is
    neither trained on nor scored.
    """

    metric = "f1"
    packages: ClassVar = ()
    input_options: ClassVar = ("format",)

    def _read(self, path, config, known):
        # Roles that the model does not know are allowed, and count as missed.
        propositions = self.read_inputs(path, config, known)
        for proposition in propositions:
            if proposition.predicate is not None and not proposition.tags:
                sentence = " ".join(proposition.tokens)[:80]
                raise ValueError(f"{path}: a proposition has no roles: {sentence!r}.")
        return propositions

    def read_inputs(self, path, config, known, format=None, token_column=None):
        """Reads columns, or lines that begin with the index of a predicate."""
        fields = first_line(path).split()
        is_line = bool(fields) and fields[0].isdecimal() and "*" not in fields[-1]
        # A number in a sentence without predicates is no index.
        is_line = is_line and fields[1:] != [NO_PREDICATE]
        if is_line if format is None else format == "text":
            return read_proposition_lines(path)
        return read_propositions(path, all_sentences=True)

    def for_training(self, examples, config):
        propositions = [example for example in examples if example.predicate is not None]
        return self._not_longer(propositions, config.max_tokens or _MAX_TOKENS)

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
        return model.tag(inputs)

    def scores(self, gold, predicted):
        pairs = [pair for pair in zip(gold, predicted, strict=True) if pair[0] is not None]
        return role_scores([tags for tags, _ in pairs], [tags for _, tags in pairs])

    def count(self, examples):
        return sum(example.predicate is not None for example in examples)

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

    def word_lines(self, examples):
        for _, group in itertools.groupby(examples, key=lambda example: id(example.tokens)):
            yield from next(group).tokens
            yield ""

    def read_predictions(self, path, examples):
        return [each.tags for each in read_propositions(path, _PROPS, all_sentences=True)]


def _verb(proposition: Proposition) -> str:
    """The lemma, or else the predicate's token; "[-]" for "-", which marks other tokens."""
    verb = proposition.lemma or proposition.tokens[proposition.predicate]
    return "[-]" if verb == NO_PREDICATE else verb
