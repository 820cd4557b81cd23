"""The declaration and checks of settings, which the command line and configurations share."""

import dataclasses
import math
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from elmo_tf.settings import (
    Count,
    Positive,
    Rate,
    Text,
    Texts,
    allowed_values,
    changeable,
    check_same_settings,
    checked_dataclass,
    parse_value,
    setting,
    settings_as_json,
    settings_of,
)


@checked_dataclass
class Settings:
    EXCLUSIVE: ClassVar = (("steps", "epochs"),)

    files: Texts = setting(min_length=1)
    steps: Count | None = setting(None)
    epochs: Positive | None = changeable(None)
    rate: Rate = 0.5
    form: Literal["a", "b"] = "a"
    name: Text = setting("x", place="part.name")
    flag: bool = False
    share: float = setting(1.0, gt=0, le=1)

    def __post_init__(self):
        if self.flag and self.form == "b":
            raise ValueError("`flag` needs `form` a.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "`steps` must be an integer of at least 1. Received: 0"),
        ({"steps": True}, "`steps` must be an integer of at least 1. Received: True"),
        ({"steps": "3"}, "`steps` must be an integer of at least 1. Received: '3'"),
        ({"steps": 3.0}, "`steps` must be an integer of at least 1. Received: 3.0"),
        ({"epochs": math.nan}, "`epochs` must be a number above 0. Received: nan"),
        ({"epochs": math.inf}, "`epochs` must be a number above 0. Received: inf"),
        ({"rate": 1.0}, "`rate` must be a number of at least 0 and below 1. Received: 1.0"),
        ({"share": 1.5}, "`share` must be a number above 0 and of at most 1. Received: 1.5"),
        ({"form": "c"}, "`form` must be one of a, b. Received: 'c'"),
        ({"flag": 1}, "`flag` must be true or false. Received: 1"),
        ({"name": ""}, "`part.name` must be a string. Received: ''"),
        ({"files": ()}, "`files` must be one or more strings. Received: ()"),
        ({"files": [3]}, "`files` must be one or more strings. Received: 3"),
        ({"steps": 1, "epochs": 2}, "`steps` and `epochs` exclude each other: pass one of them."),
        ({"flag": True, "form": "b"}, "`flag` needs `form` a."),
        ({"epoch": 2}, "Unknown key `epoch` in `Settings`. Did you mean `epochs`?"),
    ],
)
def test_an_error_of_one_line_names_the_setting_and_allowed_values(change, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the text is compared below
        Settings(**{"files": "a", **change})
    assert str(error.value).startswith(message)
    with pytest.raises(ValueError, match=r"^`files` is missing\.$"):
        Settings()


def test_settings_are_frozen_dataclasses_of_paths_lists_and_numbers():
    config = Settings([Path("a"), "b"], epochs=2, name=Path("c"))
    assert (config.files, config.epochs, config.name) == (("a", "b"), 2.0, "c")
    config = Settings(Path("a"), steps=2)
    assert dataclasses.replace(config, steps=3) == Settings("a", steps=3)
    assert hash(config) == hash(Settings("a", steps=2))
    assert settings_as_json(config)["files"] == ["a"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.steps = 4


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        *(("steps", "3", 3), ("epochs", "0.5", 0.5), ("form", "b", "b"), ("files", "a b", "a b")),
        *(("steps", "x", None), ("epochs", "inf", None), ("form", "c", None)),
    ],
)
def test_values_are_parsed_from_text_and_others_refused(name, text, value):
    field = settings_of(Settings)[name]
    if value is not None:
        assert parse_value(field, text) == value
        return
    with pytest.raises(ValueError, match=f"^must be {allowed_values(field)}, not '{text}'$"):
        parse_value(field, text)


def test_only_changeable_settings_may_differ_when_a_run_is_resumed():
    before = {"files": ["a"], "epochs": 2.0}  # the others had their defaults
    check_same_settings(Settings, settings_as_json(Settings("a", epochs=3)), before, Path("x"))
    now = settings_as_json(Settings("a", steps=3))
    with pytest.raises(ValueError, match=r"than those in x: steps was None, is 3\. Pass the"):
        check_same_settings(Settings, now, before, Path("x"))
