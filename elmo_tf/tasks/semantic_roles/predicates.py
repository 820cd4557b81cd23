"""Plain sentences ─► propositions: one model finds the predicates, `SRLTagger` labels their roles.

The first is a `CRFTagger` with the labels `V`, a predicate, and `O`. It is trained on the files of
the second, see `PredicateTagging`.
"""

import dataclasses
import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import tensorflow as tf

from elmo_tf.tasks.config import MODEL_FILE, PREDICATES_FOLDER
from elmo_tf.tasks.registry import load_models, load_task
from elmo_tf.tasks.scores import found_role_scores
from elmo_tf.tasks.semantic_roles import Proposition, SemanticRoles, by_sentence
from elmo_tf.tasks.semantic_roles.model import SRLTagger
from elmo_tf.tasks.tag_schemes import OUTSIDE
from elmo_tf.tasks.tagging import TaggedSentence, Tagging
from elmo_tf.tasks.tagging.model import CRFTagger, Tagger
from elmo_tf.tasks.task_model import Ensemble
from elmo_tf.text.reading import decode

PREDICATE = "V"


class PredicateTagging(Tagging):
    """The sentences of a file of semantic roles, with the tags `V`, a predicate, and `O`."""

    models: ClassVar = {"srl": CRFTagger}
    metric = "f1"
    max_tokens = SemanticRoles.max_tokens

    def _read(self, path, config, known):
        examples = []
        for group in by_sentence(SemanticRoles().read([path], config)):
            tags = [OUTSIDE] * len(group[0].tokens)
            for proposition in group:
                if proposition.predicate is not None:
                    tags[proposition.predicate] = PREDICATE
            examples.append(TaggedSentence(group[0].tokens, tags))
        return examples

    def labels(self, examples):
        return [OUTSIDE, PREDICATE]

    def scores(self, gold, predicted):
        parts = ([dict.fromkeys(predicates_of(tags), ()) for tags in p] for p in (gold, predicted))
        return found_role_scores(*parts)["predicates"]

    def model_arguments(self, config):
        # `model_options` are arguments of the other model.
        return super().model_arguments(dataclasses.replace(config, model_options=()))


def has_predicate_tagger(workdir: str | os.PathLike) -> bool:
    """Whether the work directory of an `SRLTagger` has a tagger of predicates."""
    return Path(workdir, PREDICATES_FOLDER, MODEL_FILE).is_file()


def load_predicate_tagger(
    workdirs: Sequence[str | os.PathLike], role_tagger: SRLTagger | Ensemble
) -> CRFTagger | Ensemble:
    """Loads the tagger of predicates of a loaded `SRLTagger`, or an ensemble of several.

    It gets the tokenizer of `role_tagger`, and shares its biLM if the weights are equal.
    """
    if not all(map(has_predicate_tagger, workdirs)):
        raise ValueError(
            "This model has no tagger that finds predicates in plain sentences. Repeat `elmo-tf "
            "task train` of its work directory with --resume, or pass columns with predicates."
        )
    elmo = getattr(role_tagger, "members", [role_tagger])[0].elmo
    folders = [Path(each, PREDICATES_FOLDER) for each in workdirs]
    models = load_models(folders, elmo and elmo.bilm)
    for model in models:
        model.tokenizer = role_tagger.tokenizer
    return Ensemble(models, list(map(os.fspath, workdirs))) if workdirs[1:] else models[0]


class PropositionTagger:
    """Finds the predicates of plain sentences, and labels the roles of each.

    Args:
        predicate_tagger: a tagger whose label `V` marks the predicates, or an ensemble of them.
        role_tagger: an `SRLTagger`, or an ensemble of them. If both models have the same biLM, it
            is computed once.

    Raises:
        ValueError: `predicate_tagger` has no label `V`; or a model has a tokenizer, and the other
            one another biLM.
    """

    def __init__(self, predicate_tagger: Tagger | Ensemble, role_tagger: SRLTagger | Ensemble):
        if PREDICATE not in predicate_tagger.labels:
            labels = ", ".join(predicate_tagger.labels)
            raise ValueError(
                f"`predicate_tagger` must have the label {PREDICATE}. Labels: {labels}."
            )
        self.predicate_tagger = predicate_tagger
        self.role_tagger = role_tagger
        self._share_bilm = predicate_tagger.bilm_digest == role_tagger.bilm_digest
        if not self._share_bilm and (predicate_tagger.tokenizer or role_tagger.tokenizer):
            raise ValueError("With a tokenizer, both models must have the same biLM.")

    @property
    def weights(self) -> list[keras.Variable]:
        """The weights of both models, and those of a common biLM once."""
        roles = self.role_tagger
        of_roles = roles.task_weights if self._share_bilm else roles.weights
        return [*self.predicate_tagger.weights, *of_roles]

    @classmethod
    def load(cls, workdir: str | os.PathLike, *others: str | os.PathLike) -> "PropositionTagger":
        """Loads both models of a work directory of `train_task`, or ensembles of several.

        Raises: see `load_task` and `load_predicate_tagger`.
        """
        role_tagger = load_task(workdir, *others)
        return cls(load_predicate_tagger([workdir, *others], role_tagger), role_tagger)

    def propositions(self, inputs: Any) -> list[list[Proposition]]:
        """The propositions of each sentence or list of tokens, in the order of their predicates."""
        propositions = []
        for part in self.predicate_tagger.in_parts(inputs):
            found = self._compiled(part)
            columns = part["tokens"], found["predicate"], found["roles"]
            for row, predicates, roles in zip(*(each.numpy() for each in columns), strict=True):
                tokens = [decode(token) for token in row if token]
                pairs = [pair for pair in zip(predicates.tolist(), roles, strict=True) if pair[1]]
                propositions.append(
                    [Proposition(tokens, place, decode(tags).split(" ")) for place, tags in pairs]
                )
        return propositions

    @functools.cached_property
    def _compiled(self) -> Any:
        return self.predicate_tagger.as_graph(self.predictions)

    def predictions(self, inputs: Any) -> dict[str, tf.Tensor]:
        """The propositions of plain sentences. Works in a graph and eagerly.

        Returns:
            "predicate", int32 (batch, proposition), the index of the predicate's token, padded with
            -1; "roles", string (batch, proposition), the BIO tags of the tokens, joined by spaces,
            padded with `""`.
        """
        inputs = self.predicate_tagger.named_inputs(inputs)
        tokens = inputs["tokens"]
        if self._share_bilm:
            inputs = self.predicate_tagger.with_layers(inputs)
        is_predicate = self.predicate_tagger.predictions(inputs)["tags"] == PREDICATE
        rows, predicates = tf.unstack(tf.cast(tf.where(is_predicate), tf.int32), axis=1)
        of_rows = {name: tf.gather(values, rows) for name, values in inputs.items()}
        tags = self.role_tagger.predictions({**of_rows, "predicate": predicates})["tags"]
        joined = tf.strings.strip(tf.strings.reduce_join(tags, axis=1, separator=" "))
        ragged = tf.RaggedTensor.from_value_rowids(predicates, rows, tf.shape(tokens)[0])
        return {
            "predicate": ragged.to_tensor(-1),
            "roles": ragged.with_values(joined).to_tensor(""),
        }


def predicates_of(tags: Sequence[str]) -> list[int]:
    """The indices of the tokens that a predicate tagger labels as predicates."""
    return [index for index, tag in enumerate(tags) if tag == PREDICATE]


def tags_by_predicate(examples: Iterable[Proposition]) -> list[dict[int, list[str]]]:
    """The tags of the propositions of each sentence, by the index of the predicate."""
    return [
        {each.predicate: each.tags for each in group if each.predicate is not None}
        for group in by_sentence(examples)
    ]
