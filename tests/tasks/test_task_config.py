import re

import pytest

from elmo_tf.tasks.config import TaskConfig


def config(**settings):
    return TaskConfig(**{"task": "ner", "train": "a", "dev": ("b",), "workdir": "w", **settings})


@pytest.mark.parametrize(
    ("task", "model", "rate"),
    [
        ("ner", "crf", 0.0),
        ("sst", "bcn", 0.0),
        ("classify", "bcn", 0.0),
        ("srl", "srl", 0.1),
        ("squad", "bidaf", 0.5),
    ],
)
def test_the_default_model_and_dropout_of_elmo_depend_on_the_task(task, model, rate):
    one = config(task=task)
    assert (one.model, one.elmo_dropout) == (model, rate)
    assert config(task=task, elmo_dropout=0.3).elmo_dropout == 0.3


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
