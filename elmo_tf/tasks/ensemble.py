"""Ensembles: task models that differ in their weights ─► the predictions of their average."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.tasks.task_model import TaskModel


class Ensemble:
    """Task models of one task that predict together: their probabilities are averaged.

    | members | average |
    | --- | --- |
    | `BCN`, `BiLSTMClassifier`, `ESIM` | probabilities of the labels |
    | `BiDAF` | probabilities of each token as the first and as the last one of the answer |
    | `SRLTagger` | probabilities of the tags of each token, before decoding |
    | `CRFTagger` | marginals of the tags; the prediction is the sequence with the highest product |
    | `CoreferenceModel` | mention scores, which select the spans, and then antecedent scores |

    It has the methods `predictions` and `predict_lists` of its members.
    Inputs must be strings. The biLM is computed once for all members. Predicted tags follow the
    scheme. The tags with the highest marginals can differ from the most probable sequence, which a
    `CRFTagger` alone predicts, even if all members are equal.

    Args:
        members: trained task models, with the same labels and the same biLM.
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
        first = self.members[0]
        self.texts, self.features, self.labels = first.texts, first.features, first.labels
        self.bilm_digest = first.bilm_digest
        check_same(names, "kind of model and inputs", [_kind(member) for member in self.members])
        check_same(names, "labels", [member.labels for member in self.members])
        check_same(names, "biLM", [(member.bilm_digest,) for member in self.members])
        check_same(names, "settings", [_settings(member) for member in self.members])

    @property
    def weights(self) -> list[keras.Variable]:
        """The weights of the members, and those of the biLM once."""
        first, *others = self.members
        return [*first.weights, *(weight for other in others for weight in other.task_weights)]

    @property
    def task_weights(self) -> list[keras.Variable]:
        """The weights of the members without those of the biLM."""
        return [weight for member in self.members for weight in member.task_weights]

    def named_inputs(self, inputs: Any) -> dict[str, Any]:
        """See `TaskModel`."""
        return self.members[0].named_inputs(inputs)

    def with_layers(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """See `TaskModel`."""
        return self.members[0].with_layers(inputs)

    def predictions(self, inputs: Any) -> dict[str, tf.Tensor]:
        """See `TaskModel`."""
        inputs = self.with_layers(self.named_inputs(inputs))
        return self.members[0].joint_predictions(self.members, inputs)

    def predict_lists(self, inputs: Any) -> list[Any]:
        """See `TaskModel`."""
        return self.members[0].as_lists(self._listed_predictions(inputs))

    @functools.cached_property
    def _listed_predictions(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        first = self.members[0]
        return self.as_graph(lambda inputs: first.only_listed(self.predictions(inputs)))

    def as_graph(self, function: Callable) -> Callable[[Any], dict[str, tf.Tensor]]:
        """See `TaskModel`."""
        return self.members[0].as_graph(function)


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
    return *member.texts, *member.features, *member.listed


def _settings(member: TaskModel) -> tuple[str, ...]:
    return tuple(f"{name}={member.settings[name]!r}" for name in type(member).shared_settings)
