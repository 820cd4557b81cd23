"""Predicates: sentences ─► which tokens are predicates; `SRLTagger` labels the roles for each."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from elmo_tf.tasks.scores import found_role_scores
from elmo_tf.tasks.specification import specification_of
from elmo_tf.tasks.tag_schemes import OUTSIDE
from elmo_tf.tasks.tagging.model import CRFTagger
from elmo_tf.tasks.tagging.reader import TaggedSentence, Tagging

PREDICATE = "V"
TO_FIND = -1  # the predicate of a plain sentence
MAX_TOKENS = 100  # of training examples; He et al. 2017


class Proposition(NamedTuple):
    """A predicate in its sentence, and the roles of the tokens.

    tokens: tokens of the sentence, at least one. Propositions of a sentence share the list.
    predicate: index of the predicate's token, from 0. None in a sentence without a predicate, which
        has no tags.
    tags: one BIO tag per token. The predicate itself has the role `V`: in nearly all data the
        token at `predicate`, and further tokens of phrasal verbs. Empty if the file has none.
    roleset: such as `kill.01`; a lemma in CoNLL-2005; empty if the file has none.
    lemma: of the predicate, such as `kill`; empty if the file has none.
    """

    tokens: list[str]
    predicate: int | None
    tags: list[str]
    roleset: str
    lemma: str = ""


def by_sentence(propositions: Iterable[Proposition]) -> list[list[Proposition]]:
    """Groups the propositions of each sentence.

    Consecutive propositions belong to one sentence if they share its list of tokens, or if their
    tokens are equal and their predicates in order, as in a file with a proposition per line.
    """
    groups: list[list[Proposition]] = []
    for each in propositions:
        last = groups[-1][-1] if groups else None
        if last is not None and (each.tokens is last.tokens or _continues(last, each)):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _continues(last: Proposition, each: Proposition) -> bool:
    has_both = last.predicate is not None and each.predicate is not None
    return has_both and last.predicate < each.predicate and last.tokens == each.tokens


def plain_sentence(tokens: list[str]) -> Proposition:
    """A sentence whose predicates are to be found."""
    return Proposition(tokens, TO_FIND, [], "")


def with_predicates(
    examples: Iterable[Proposition], predicted: Iterable[Sequence[str]]
) -> list[Proposition]:
    """Examples with a proposition per predicate in place of each plain sentence, see `Proposition`.

    Args:
        examples: propositions and plain sentences.
        predicted: the tags of each plain sentence by a predicate tagger.
    """
    tags, completed = iter(predicted), []
    for example in examples:
        is_plain = example.predicate == TO_FIND
        predicates = (predicates_of(next(tags)) or [None]) if is_plain else [example.predicate]
        completed += [example._replace(predicate=predicate) for predicate in predicates]
    return completed


def tags_by_predicate(examples: Iterable[Proposition]) -> list[dict[int, list[str]]]:
    """The tags of the propositions of each sentence, by the index of the predicate."""
    return [
        {each.predicate: each.tags for each in group if each.predicate is not None}
        for group in by_sentence(examples)
    ]


def predicates_of(tags: Sequence[str]) -> list[int]:
    """The indices of the tokens that a predicate tagger labels as predicates."""
    return [index for index, tag in enumerate(tags) if tag == PREDICATE]


class Predicates(Tagging):
    """The sentences of a file of semantic roles, with the tags `V`, a predicate, and `O`."""

    metric = "f1"

    def _read(self, path, config, known):
        examples = []
        for group in by_sentence(specification_of(config.task).read([path], config)):
            tags = [OUTSIDE] * len(group[0].tokens)
            for proposition in group:
                if proposition.predicate is not None:
                    tags[proposition.predicate] = PREDICATE
            examples.append(TaggedSentence(group[0].tokens, tags))
        return examples

    def for_training(self, examples, config):
        return self._not_longer(examples, config.max_tokens or MAX_TOKENS)

    def labels(self, examples):
        return [OUTSIDE, PREDICATE]

    def scores(self, gold, predicted):
        parts = ([dict.fromkeys(predicates_of(tags), ()) for tags in p] for p in (gold, predicted))
        return found_role_scores(*parts)["predicates"]

    def model_arguments(self, config):
        # `model_options` are arguments of the other model.
        return super().model_arguments(dataclasses.replace(config, model_options=()))

    def _model_class(self, config):
        return CRFTagger
