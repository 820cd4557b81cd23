"""Settings: frozen dataclasses that pydantic checks, with errors of one line.

The command line shows the docstrings of these classes as help, and parses their fields.
"""

import dataclasses
import difflib
import functools
import json
import os
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pydantic.dataclasses
import pydantic_core

_RULES = pydantic.ConfigDict(
    extra="forbid",
    allow_inf_nan=False,
    arbitrary_types_allowed=True,
    validate_by_name=True,
    serialize_by_alias=True,
)


def _as_string(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _as_tuple(value: Any) -> Any:
    """A single value as a tuple. None is empty."""
    return (value,) if isinstance(value, str | os.PathLike) else value or ()


Natural = Annotated[int, pydantic.Field(ge=0)]
Count = Annotated[int, pydantic.Field(ge=1)]
NonNegative = Annotated[float, pydantic.Field(ge=0)]
Positive = Annotated[float, pydantic.Field(gt=0)]
Rate = Annotated[float, pydantic.Field(ge=0, lt=1)]
# A string that is not empty; paths are accepted.
Text = Annotated[str, pydantic.BeforeValidator(_as_string), pydantic.Field(min_length=1)]
# One or several of them.
Texts = Annotated[tuple[Text, ...], pydantic.BeforeValidator(_as_tuple)]


@typing.dataclass_transform(frozen_default=True, field_specifiers=(pydantic.Field,))
def checked_dataclass(cls: Any = None, *, strict: bool = False) -> Any:
    """A frozen dataclass whose values pydantic checks; a wrong one is a `ValueError` of one line.

    Args:
        strict: whether, as in JSON, "3" and True are no integers.
    """
    if cls is None:
        return functools.partial(checked_dataclass, strict=strict)
    checked = pydantic.dataclasses.dataclass(cls, frozen=True, config={**_RULES, "strict": strict})
    check = checked.__init__
    names = [field.alias or name for name, field in checked.__pydantic_fields__.items()]

    @functools.wraps(check)
    def init(self, *args: Any, **kwargs: Any) -> None:
        try:
            check(self, *args, **kwargs)
        except pydantic.ValidationError as error:
            raise ValueError(one_line(error, names)) from None

    checked.__init__ = init
    return checked


def one_line(error: pydantic.ValidationError, names: Sequence[str] = ()) -> str:
    """The first error in one line: the setting, what is wrong, and what was received.

    Args:
        error: the error.
        names: the settings, of which the message suggests one in place of an unknown one.
    """
    first = error.errors(include_url=False)[0]
    rule = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:  # raised by `__post_init__`
        return rule
    name = str(first["loc"][0])
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"Allowed: {', '.join(names)}."
        return f"Unknown key `{name}`. {hint}"
    if first["type"] == "missing":
        return f"`{name}` is missing."
    return f"`{name}`: {rule}. Received: {first['input']!r}"


def resumed_settings(config_class: Any, given: Any) -> Any:
    """Adds the settings of a run's record to those that resume it; for `model_validator`.

    Args:
        config_class: the dataclass of the settings. Its RECORD is the name of the record's file in
            the directory `workdir`; its EXCLUSIVE are pairs of settings that exclude each other.
        given: what pydantic validates. Unless its `resume` is true, it is returned unchanged.
    """
    settings = given
    if isinstance(given, pydantic_core.ArgsKwargs):
        settings = {**dict(zip(config_class.__pydantic_fields__, given.args, strict=False))}
        settings |= given.kwargs or {}
    if not settings.get("resume") or not settings.get("workdir"):
        return given
    path = Path(settings["workdir"], config_class.RECORD)
    if not path.is_file():
        return given
    recorded = read_record(path)["settings"]
    known = config_class.__pydantic_fields__.keys() & recorded.keys()
    merged = {name: recorded[name] for name in known} | settings
    for first, second in config_class.EXCLUSIVE:
        # A change drops the other's record. The recorded options are those of the preset.
        if merged.get(first) and merged.get(second):
            if second not in settings:
                del merged[second]
            elif first not in settings:
                del merged[first]
    return merged


def check_exclusive(config: Any) -> None:
    """Raises `ValueError` if two settings of a pair in EXCLUSIVE are set."""
    for first, second in config.EXCLUSIVE:
        if getattr(config, first) and getattr(config, second):
            raise ValueError(f"`{first}` and `{second}` exclude each other: pass one of them.")


def fill_settings(config: Any, **defaults: Any) -> None:
    """Sets the settings that are None; only for `__post_init__`."""
    for name, value in defaults.items():
        if getattr(config, name) is None:
            object.__setattr__(config, name, value)


def settings_as_json(config: Any) -> dict[str, Any]:
    """The settings as JSON values: tuples become lists, and paths strings."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=os.fspath))


def read_record(path: Path) -> dict[str, Any]:
    """Reads the record of a run: a dict with its `settings` and results.

    Raises:
        ValueError: the file is damaged.
        OSError: the file cannot be read.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
            raise ValueError("`settings` is missing.")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    return record


def check_same_settings(
    config_class: Any, now: Mapping[str, Any], before: Mapping[str, Any], path: Path
) -> None:
    """Raises `ValueError` if a setting that must stay the same changes when a run is resumed.

    Args:
        config_class: the dataclass of the settings. Its CHANGEABLE may change.
        now: settings of the resumed run, see `settings_as_json`.
        before: the settings in the file `path`. Missing ones had their default.
    """
    fields = config_class.__pydantic_fields__
    before = {name: field.default for name, field in fields.items()} | before
    fixed = [name for name in fields if name not in config_class.CHANGEABLE]
    changes = differences(*({name: part[name] for name in fixed} for part in (before, now)))
    if changes:
        changed = [f"{name} was {old!r}, is {new!r}" for name, old, new in changes]
        raise ValueError(
            f"Cannot resume with other settings than those in {path}: {'; '.join(changed)}. Pass "
            "the same ones, or choose another --workdir."
        )


def differences(first: Any, second: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """The names of different values, such as `lstm.dim`, and both; None for a missing one."""
    parts = [value if isinstance(value, Mapping) else None for value in (first, second)]
    if not any(parts):
        return [(name, first, second)] if first != second else []
    first, second = (part or {} for part in parts)
    keys = {**first, **second}
    places = [(first.get(key), second.get(key), f"{name}.{key}".lstrip(".")) for key in keys]
    return [each for place in places for each in differences(*place)]
