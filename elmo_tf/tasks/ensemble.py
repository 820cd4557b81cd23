"""Ensembles: task models that differ in their weights ─► the predictions of their average."""

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.models.bilm import model_digest
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.inputs import count_tokens, is_token

# The methods of task models that return lists.
_LISTS = ("answer_spans", "classify", "entities", "propositions", "tag")


class Ensemble:
    """Task models of one task that predict together: their probabilities are averaged.

    | members | average |
    | --- | --- |
    | `BCN`, `BiLSTMClassifier`, `ESIM` | probabilities of the labels |
    | `BiDAF` | probabilities of each token as the first and as the last one of the answer |
    | `SRLTagger` | probabilities of the tags of each token, before decoding |
    | `CRFTagger` | marginals of the tags; the prediction is the sequence with the highest product |
    | `CoreferenceModel` | mention scores, which select the spans, and then antecedent scores |

    It has the methods `predictions`, `compiled_predictions`, and `classify`, `tag`, `propositions`,
    `answer_spans` or `entities` of its members. Inputs must be strings. The biLM is computed once
    for all members. Predicted tags follow the scheme. Marginals can favor other tags than those of
    the most probable sequence, which a `CRFTagger` alone predicts, even if all members are equal.
    The predicate taggers of `SRLTagger` are an ensemble, too.

    Args:
        members: trained task models, with the same labels and the same biLM. `load_task` with
            several work directories returns them with one biLM in memory.
        names: the names of the members in messages. None numbers them. Defaults to None.

    Raises:
        TypeError: a member is not a `TaskModel`.
        ValueError: there is no member; or two differ in their task, labels, biLM, or in a setting
            of their predictions, such as the length of an answer.

    Source: Peters et al. 2018, section 4; Lee et al. 2017 for coreference.
    """

    def __init__(self, members: Sequence[TaskModel], names: Sequence[str] | None = None):
        self.members = tuple(members)
        for member in self.members:
            if not isinstance(member, TaskModel):
                raise TypeError(f"The members of an ensemble must be task models, not {member!r}.")
        if not self.members:
            raise ValueError("`members` is empty. Pass at least one task model.")
        names = names or [f"member {index}" for index in range(len(self.members))]
        check_same(names, "kind of model and inputs", [_kind(member) for member in self.members])
        check_same(names, "labels", [member.labels for member in self.members])
        check_same(names, "biLM", [(_bilm(member),) for member in self.members])
        check_same(names, "settings", [_settings(member) for member in self.members])
        first = self.members[0]
        self.texts, self.features, self.labels = first.texts, first.features, first.labels
        self.elmo, self.token_vectors = first.elmo, first.token_vectors
        self.layers_name = first.layers_name
        taggers = [getattr(member, "predicate_tagger", None) for member in self.members]
        has_all = all(tagger is not None for tagger in taggers)
        self.predicate_tagger = Ensemble(taggers, names) if has_all else None
        for name in _LISTS:
            if hasattr(type(first), name):
                setattr(self, name, types.MethodType(getattr(type(first), name), self))

    @property
    def weights(self) -> list[keras.Variable]:
        """The weights of the members, and those of the biLM once."""
        first, *others = self.members
        weights = list(first.weights)
        for member in others:
            bilm = member.elmo.bilm.weights if isinstance(member.elmo, Elmo) else []
            unused = {weight.value.ref() for weight in bilm}
            weights += [each for each in member.weights if each.value.ref() not in unused]
        return weights

    def predictions(self, inputs: Any) -> dict[str, tf.Tensor]:
        """See `TaskModel`."""
        first = self.members[0]
        inputs = first.named_inputs(inputs)
        for text in self.texts:
            if inputs[text].dtype != tf.string:
                raise TypeError(
                    "The inputs of an ensemble must be strings: each member has its own words. "
                    f"Received: {inputs[text].dtype.name}."
                )
            name = self.layers_name(text)
            if isinstance(self.elmo, Elmo) and name not in inputs:
                lengths = count_tokens(is_token(inputs[text]))
                inputs[name] = self.elmo.bilm(inputs[text], lengths=lengths)["layers"]
        return first.joint_predictions(self.members, inputs)

    @functools.cached_property
    def compiled_predictions(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        """`predictions` as a graph that is traced once for all shapes."""
        return self.members[0]._traced(self.predictions)

    @property
    def _compiled_tags(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        return self.compiled_predictions  # for `Tagger.tag`


def check_same(names: Sequence[str], what: str, values: Sequence[Sequence[str]]) -> None:
    """Raises a `ValueError` if members of an ensemble differ in something."""
    for name, value in zip(names, values, strict=True):
        if list(value) != list(values[0]):
            only = ((names[0], values[0], value), (name, value, values[0]))
            lists = [(each, ", ".join(x for x in a if x not in b)) for each, a, b in only]
            shown = [f"Only {each} has {items}." for each, items in lists if items]
            raise ValueError(
                f"The members of an ensemble must have the same {what}. "
                f"{' '.join(shown) or f'The order in {names[0]} and {name} differs.'}"
            )


def _kind(member: TaskModel) -> tuple[str, ...]:
    """Models of one kind predict the same from the same inputs, such as `BCN` and others."""
    base = type(member).decoded.__qualname__.partition(".")[0]
    return base, *member.texts, *member.features


def _bilm(member: TaskModel) -> str:
    return "none" if member.elmo is None else model_digest(member.elmo.bilm)[:12]


def _settings(member: TaskModel) -> tuple[str, ...]:
    return tuple(f"{name}={member.settings[name]!r}" for name in type(member).shared_settings)
