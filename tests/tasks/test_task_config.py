import re

import pytest

from elmo_tf.tasks.config import TaskConfig


def config(**settings):
    return TaskConfig(**{"task": "ner", "train": "a", "dev": ("b",), "workdir": "w", **settings})


@pytest.mark.parametrize(("task", "rate"), [("ner", 0.0), ("srl", 0.1), ("squad", 0.5)])
def test_the_default_dropout_of_elmo_depends_on_the_task(task, rate):
    assert config(task=task).elmo_dropout == rate
    assert config(task=task, elmo_dropout=0.3).elmo_dropout == 0.3


def test_files_become_tuples_and_each_task_has_a_default_model():
    one = config()

    assert (one.train, one.dev) == (("a",), ("b",))
    assert one.model == "crf"
    assert config(task="sst").model == config(task="classify").model == "bcn"
    assert one.as_json()["train"] == ["a"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "bcn"}, "`model` must be one of crf for ner. Received: 'bcn'"),
        ({"fine_tune": True}, "`fine_tune` needs `elmo`"),
        ({"freeze_words": True}, "`freeze_words` needs `word_vectors`"),
        ({"task": "pos", "scheme": "IOB1"}, "`scheme` is not for --task pos"),
        ({"metric": "f1_macro"}, "`metric` is not for --task ner"),
        ({"task": "sst", "phrases": 3, "share": 0.5}, "`share` and `phrases` exclude each other"),
    ],
)
def test_an_invalid_setting_is_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        config(**settings)
