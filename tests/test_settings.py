"""The declaration and checks of settings, which the command line and configurations share."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pydantic
import pytest

from elmo_tf.settings import Count, Positive, Rate, RunSettings, Text, Texts, checked_dataclass


@checked_dataclass
class Settings(RunSettings):
    RECORD: ClassVar = "record.json"
    EXCLUSIVE: ClassVar = (("steps", "epochs"),)

    files: Annotated[Texts, pydantic.Field(min_length=1)]
    workdir: Text = "w"
    steps: Count | None = None
    epochs: Positive | None = None
    rate: Rate = 0.5
    form: Literal["a", "b"] = "a"
    flag: bool = False
    resume: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.flag and self.form == "b":
            raise ValueError("`flag` needs `form` a.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "`steps`: Input should be greater than or equal to 1. Received: 0"),
        ({"steps": "x"}, "`steps`: Input should be a valid integer"),
        ({"epochs": math.nan}, "`epochs`: Input should be a finite number. Received: nan"),
        ({"form": "c"}, "`form`: Input should be 'a' or 'b'. Received: 'c'"),
        ({"workdir": ""}, "`workdir`: Value should have at least 1 item"),
        ({"files": [3]}, "`files.0`: Input should be a valid string. Received: 3"),
        ({"steps": 1, "epochs": 2}, "`steps` and `epochs` exclude each other: pass one of them."),
        ({"flag": True, "form": "b"}, "`flag` needs `form` a."),
        ({"epoch": 2}, "Unknown key `epoch`. Allowed: files, workdir, steps, epochs,"),
    ],
)
def test_an_error_of_one_line_names_the_setting_and_what_is_allowed(change, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the text is compared below
        Settings(**{"files": "a", **change})
    assert str(error.value).startswith(message)
    with pytest.raises(ValueError, match=r"^`files` is missing\.$"):
        Settings()


def test_settings_are_frozen_dataclasses_of_paths_lists_and_numbers():
    config = Settings([Path("a"), "b"], Path("c"), epochs=2)
    assert (config.files, config.workdir, config.epochs) == (("a", "b"), "c", 2.0)
    config = Settings(Path("a"), steps=2)
    assert dataclasses.replace(config, steps=3) == Settings("a", steps=3)
    assert hash(config) == hash(Settings("a", steps=2))
    assert config.as_json()["files"] == ["a"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.steps = 4


def test_a_resumed_run_has_the_settings_of_its_record_unless_others_are_given(tmp_path):
    record = {"files": ["x"], "steps": 3, "rate": 0.25, "removed_since": 1}
    with pytest.raises(ValueError, match=f"no run to resume in {tmp_path}: it has no record.json"):
        Settings(workdir=tmp_path, resume=True)
    assert Settings("x", tmp_path, resume=True).steps is None
    (tmp_path / "record.json").write_text(json.dumps({"settings": record}))
    resumed = Settings(workdir=tmp_path, resume=True)
    assert (resumed.files, resumed.steps, resumed.rate) == (("x",), 3, 0.25)
    changed = Settings("y", tmp_path, epochs=2, resume=True)
    assert (changed.files, changed.steps, changed.epochs) == (("y",), None, 2.0)
    assert Settings("y", tmp_path).rate == 0.5
    for text in ("{", "[]"):
        (tmp_path / "record.json").write_text(text)
        with pytest.raises(ValueError, match=r"record\.json is damaged: "):
            Settings(workdir=tmp_path, resume=True)
