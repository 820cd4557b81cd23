"""Which outputs are requested, and how arrays of answers are joined and cut."""

import numpy as np
import pytest

from elmo_tf.saved_models.responses import join_responses, output_plan, split_rows
from serving_requests import infos

INFOS = infos(
    elmo=("float32", [None, None, 4]),
    default=("float32", [None, 4]),
    tokens=("string", [None, None]),
    odd=("float32", None),
    sequence_len=("int32", [None]),
)


def test_other_axes_are_not_mistaken_for_the_token_axis():
    others = infos(chars=("int32", [None, None]), pairs=("float32", [None, None, None]))
    assert output_plan((), INFOS | others).with_tokens == {"elmo", "tokens"}


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        (["elmo"], ["elmo", "sequence_len"]),
        (["sequence_len", "elmo"], ["sequence_len", "elmo"]),
        (["default", "odd", "default"], ["default", "odd"]),
        ([], []),
        (["unknown"], ["unknown"]),
    ],
)
def test_lengths_are_requested_for_outputs_with_a_token_axis(wanted, asked):
    plan = output_plan(wanted, INFOS)
    assert plan.requested == asked
    assert plan.with_tokens == {"elmo", "tokens"}


def test_lengths_are_not_requested_if_the_signature_lacks_them():
    others = {name: info for name, info in INFOS.items() if name != "sequence_len"}
    assert output_plan(["elmo"], others).requested == ["elmo"]
    assert output_plan(["elmo"], {}).requested == ["elmo"]


def answer(lengths, width):
    """An answer whose padding is 9 or `?`."""
    mask = np.arange(width) < np.array(lengths)[:, None]
    tokens = np.where(mask, b"t", b"?").astype(object)
    elmo = np.where(mask[..., None], np.arange(4.0, dtype=np.float32), 9)
    return {"elmo": elmo, "tokens": tokens, "sequence_len": np.array(lengths, np.int32)}


def test_answers_are_padded_to_the_longest_sentence_of_all():
    plan = output_plan(["elmo", "tokens"], INFOS)
    whole = join_responses([answer([1, 2], 6), answer([3], 3), answer([0], 0)], plan)
    assert list(whole) == ["elmo", "tokens"]
    assert whole["elmo"].shape == (4, 3, 4)
    assert whole["elmo"].dtype == np.float32
    np.testing.assert_array_equal(whole["elmo"][3], np.zeros((3, 4)))
    assert whole["tokens"][2].tolist() == [b"t", b"t", b"t"]
    assert whole["tokens"][3].tolist() == [b"", b"", b""]


def test_answers_are_not_cut_without_lengths():
    plan = output_plan(["elmo"], {})
    (one, other) = answer([1, 2], 6), answer([3], 3)
    del one["sequence_len"], other["sequence_len"]
    assert join_responses([one], plan)["elmo"].shape == (2, 6, 4)
    assert join_responses([one, other], plan)["elmo"].shape == (3, 6, 4)


@pytest.mark.parametrize("lengths", [np.array(2), np.array([1.0, 2.0])])
def test_an_invalid_sequence_len_output_is_ignored(lengths):
    strange = {**answer([1, 2], 6), "sequence_len": lengths}
    assert join_responses([strange], output_plan(["elmo"], INFOS))["elmo"].shape == (2, 6, 4)


def test_an_output_without_a_sentence_axis_cannot_be_joined():
    plan = output_plan(["version"], {})
    scalar = {"version": np.array(3)}
    assert join_responses([scalar], plan)["version"] == 3
    with pytest.raises(ValueError, match="'version' has not one row for each sentence, but the"):
        join_responses([scalar, scalar], plan)
    with pytest.raises(ValueError, match=r"the shape \(2, 6, 4\). Use `predict` for it"):
        list(split_rows(answer([1, 2], 6), 3, output_plan(["elmo"], INFOS)))


def test_a_row_is_a_copy_of_its_own_tokens_only():
    plan = output_plan(["elmo", "tokens"], INFOS)
    one, other = split_rows(answer([1, 2], 6), 2, plan)
    assert (one["elmo"].shape, other["elmo"].shape) == ((1, 4), (2, 4))
    assert other["tokens"].tolist() == [b"t", b"t"]
    assert one["elmo"].base is None
