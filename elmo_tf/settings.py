"""Settings: frozen dataclasses that pydantic checks, with errors of one line.

The command line shows the docstrings of these classes as help, and parses their fields.
"""

import functools
import json
import os
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

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


def as_tuple(value: Any) -> Any:
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
Texts = Annotated[tuple[Text, ...], pydantic.BeforeValidator(as_tuple)]


@typing.dataclass_transform(frozen_default=True, field_specifiers=(pydantic.Field,))
def checked_dataclass(cls: Any = None, *, strict: bool = False) -> Any:
    """A frozen dataclass whose values pydantic checks; a wrong one is a `ValueError` of one line.

    If `strict`, "3" and True are no integers, as in JSON.
    """
    if cls is None:
        return functools.partial(checked_dataclass, strict=strict)
    checked = pydantic.dataclasses.dataclass(cls, frozen=True, config={**_RULES, "strict": strict})
    check = checked.__init__

    @functools.wraps(check)
    def init(self, *args: Any, **kwargs: Any) -> None:
        try:
            check(self, *args, **kwargs)
        except pydantic.ValidationError as error:
            raise ValueError(one_line(error, checked)) from None

    checked.__init__ = init
    return checked


def _positional(config_class: Any) -> list[str]:
    """The names of positional arguments."""
    fields = config_class.__pydantic_fields__.items()
    return [name for name, field in fields if not field.kw_only]


def one_line(error: pydantic.ValidationError, config_class: Any = None) -> str:
    """The first error in one line; after an unknown setting it lists those of `config_class`."""
    first = error.errors(include_url=False)[0]
    place, *inner = first["loc"] or [""]
    if isinstance(place, int) and config_class is not None:
        place = dict(enumerate(_positional(config_class))).get(place, place)
    name = ".".join(map(str, (place, *inner)))
    match first["type"]:
        case "unexpected_keyword_argument":
            allowed = config_class.__pydantic_fields__
            return f"Unknown key `{name}`. Allowed: {', '.join(allowed)}."
        case "missing":
            return f"`{name}` is missing."
        case "value_error" | "json_invalid":
            rule = first["msg"].removeprefix("Value error, ")
        case _:
            rule = f"{first['msg']}. Received: {first['input']!r}"
    return f"`{name}`: {rule}" if name else rule


@checked_dataclass
class RunSettings:
    """Base of the settings of a run, which are recorded in the directory `workdir`.

    If `resume` is true, settings that are not given are those of the record.
    """

    RECORD: ClassVar[str]  # name of the record's file
    EXCLUSIVE: ClassVar[tuple[tuple[str, str], ...]]  # pairs of settings
    CHANGEABLE: ClassVar[tuple[str, ...]]  # when a run is resumed
    ABSENT: ClassVar[Mapping[str, Any]] = {}  # settings that records of earlier versions lack

    @pydantic.model_validator(mode="before")
    @classmethod
    def _with_record(cls, given: Any) -> Any:
        fields = cls.__pydantic_fields__
        settings = given
        if isinstance(given, pydantic_core.ArgsKwargs):  # Cyclopts passes a dict
            named = zip(_positional(cls), given.args, strict=False)
            settings = dict(named) | (given.kwargs or {})
        if not settings.get("resume") or not settings.get("workdir"):
            return given
        path = Path(settings["workdir"], cls.RECORD)
        if not path.is_file():
            if all(name in settings for name in fields if fields[name].is_required()):
                return given
            raise ValueError(f"There is no run to resume in {path.parent}: it has no {cls.RECORD}.")
        recorded = read_record(path)["settings"]
        recorded = cls.ABSENT | {name: recorded[name] for name in recorded if name in fields}
        for first, second in cls.EXCLUSIVE:
            # What is given replaces the other's record. The recorded options are of the preset.
            if settings.get(second):
                recorded.pop(first, None)
            elif settings.get(first) or recorded.get(first):
                recorded.pop(second, None)
        return recorded | settings

    def __post_init__(self):
        for first, second in self.EXCLUSIVE:
            if getattr(self, first) and getattr(self, second):
                raise ValueError(f"`{first}` and `{second}` exclude each other: pass one of them.")

    def _fill(self, **defaults: Any) -> None:
        """Sets the settings that are None; only for `__post_init__`."""
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def as_json(self, **changes: Any) -> dict[str, Any]:
        """The settings as JSON values, with their defaults resolved, and changes of them."""
        return pydantic_core.to_jsonable_python(self) | changes

    @classmethod
    def check_resumed(cls, now: Mapping[str, Any], before: Mapping[str, Any], path: Path) -> None:
        """Raises `ValueError` if settings differ from those in the file `path`, and may not."""
        changed = [
            f"{name} was {before[name]!r}"
            for name in now
            if name not in cls.CHANGEABLE and before.get(name, now[name]) != now[name]
        ]
        if changed:
            problem = f"Cannot resume with other settings than those in {path}"
            raise ValueError(f"{problem}: {', '.join(changed)}. Or choose another --workdir.")


def read_record(path: Path) -> dict[str, Any]:
    """Reads the record of a run: its `settings` and results. `ValueError` if it is damaged."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {**record, "settings": dict(record["settings"])}
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
