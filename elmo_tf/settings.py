"""Settings: frozen dataclasses that pydantic checks, each field declared once.

The options of the command line (`elmo_tf.cli`), the rules for resuming a run, the keys of
`options.json` and the messages of errors are derived from these declarations.
"""

import dataclasses
import difflib
import functools
import json
import os
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic.dataclasses
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

# Strict: "3" and True are no integers. An integer is a float, but NaN and infinity are not.
_RULES = pydantic.ConfigDict(
    strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True
)
_BOUNDS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
_PLURALS = {int: "integers", float: "numbers"}
_KINDS = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}


def _as_string(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _as_tuple(value: Any) -> Any:
    """A single value as a tuple, and a list too. None is empty."""
    if isinstance(value, str | os.PathLike):
        return (value,)
    return tuple(value or ()) if isinstance(value, list | None) else value


Natural = Annotated[int, pydantic.Field(ge=0)]
Count = Annotated[int, pydantic.Field(ge=1)]
NonNegative = Annotated[float, pydantic.Field(ge=0)]
Positive = Annotated[float, pydantic.Field(gt=0)]
Rate = Annotated[float, pydantic.Field(ge=0, lt=1)]
# A string that is not empty; paths are accepted.
Text = Annotated[str, pydantic.BeforeValidator(_as_string), pydantic.Field(min_length=1)]
# One or several of them.
Texts = Annotated[tuple[Text, ...], pydantic.BeforeValidator(_as_tuple)]


@dataclasses.dataclass(frozen=True)
class Option:
    """What is declared of a setting beside its type, range, default and help.

    name: the command-line option; "" derives it from the field.
    group: group title in `--help`; None is that of the previous setting.
    metavar: placeholder for the value in `--help`; None depends on the type.
    default_help: description of the default in `--help`, if it is not the default value itself.
    is_positional: whether it is a positional argument.
    is_repeatable: whether each value follows an option of its own.
    may_change: whether it may change when a run is resumed.
    place: key in `options.json`, which messages name in place of the field.
    allowed: description of the allowed values; None derives it from the type and range.
    """

    name: str = ""
    group: str | None = None
    metavar: str | None = None
    default_help: str | None = None
    is_positional: bool = False
    is_repeatable: bool = False
    may_change: bool = False
    place: str = ""
    allowed: str | None = None


def setting(default: Any = PydanticUndefined, help: str = "", **declaration: Any) -> Any:
    """Declares a field of a checked dataclass, or the type of several such fields.

    Args:
        default: the default; without one, the setting is required.
        help: text for `--help`, without the default.
        **declaration: arguments of `Option`; others, such as `ge`, are those of `pydantic.Field`.
    """
    names = {field.name for field in dataclasses.fields(Option)} & declaration.keys()
    extra = {"option": Option(**{name: declaration.pop(name) for name in names})}
    return pydantic.Field(default, description=help, json_schema_extra=extra, **declaration)


# Declares a setting that may change when a run is resumed.
changeable = functools.partial(setting, may_change=True)

# Settings of the trainings of biLMs and of task models.
MovingAverage = Annotated[
    float,
    setting(
        ge=0,
        lt=1,
        help="evaluate and save a moving average of the weights, with at most this decay per step, "
        "such as 0.999; 0 for none",
    ),
]
ClipNorm = Annotated[
    float,
    setting(
        gt=0, help="maximum of the global gradient norm, above 0; larger gradients are scaled down"
    ),
]
OverwriteRun = Annotated[
    bool, changeable(help="delete the results in --workdir, and start from the beginning")
]


@typing.dataclass_transform(frozen_default=True, field_specifiers=(setting, changeable))
def checked_dataclass(cls: Any = None, *, kw_only: bool = False) -> Any:
    """A frozen dataclass whose values are checked; a wrong one is a `ValueError` of one line.

    Pairs of fields in its class variable `EXCLUSIVE` exclude each other.
    """
    if cls is None:
        return functools.partial(checked_dataclass, kw_only=kw_only)
    checked = pydantic.dataclasses.dataclass(cls, frozen=True, kw_only=kw_only, config=_RULES)
    check = checked.__init__

    @functools.wraps(check)
    def init(self, *args: Any, **kwargs: Any) -> None:
        try:
            check(self, *args, **kwargs)
        except pydantic.ValidationError as error:
            raise ValueError(_message(checked, error)) from None
        for first, second in getattr(checked, "EXCLUSIVE", ()):
            if getattr(self, first) and getattr(self, second):
                raise ValueError(f"`{first}` and `{second}` exclude each other: pass one of them.")

    checked.__init__ = init
    return checked


def settings_of(config_class: Any) -> dict[str, FieldInfo]:
    """The declared settings of a checked dataclass by name."""
    return config_class.__pydantic_fields__


def option_of(field: FieldInfo) -> Option:
    """What a setting declares beside its type and range."""
    return (field.json_schema_extra or {}).get("option", Option())


def value_type(field: FieldInfo) -> tuple[Any, list[Any]]:
    """The type of a value that is not None, and what pydantic knows of its range."""
    annotation, facts = field.annotation, list(field.metadata)
    while typing.get_origin(annotation) in (Annotated, typing.Union, types.UnionType):
        if typing.get_origin(annotation) is Annotated:
            inner = FieldInfo.from_annotation(annotation)
            annotation, facts = inner.annotation, facts + inner.metadata
        else:
            annotation = typing.get_args(annotation)[0]
    return annotation, facts


def allowed_values(field: FieldInfo) -> str:
    """Description of the allowed values, such as "an integer of at least 1"."""
    if option_of(field).allowed is not None:
        return option_of(field).allowed
    kind, facts = value_type(field)
    bounds = [
        f"{text} {getattr(bound, name):g}"
        for name, text in _BOUNDS.items()
        for bound in facts
        if hasattr(bound, name)
    ]
    if typing.get_origin(kind) is Literal:
        words = f"one of {', '.join(typing.get_args(kind))}"
    elif typing.get_origin(kind) is tuple:
        is_some = any(getattr(fact, "min_length", 0) for fact in facts)
        values = _PLURALS.get(value_type(element_of(field))[0], "strings")
        words = f"{'one or more' if is_some else 'a list of'} {values}"
    else:
        words = _KINDS.get(kind) or f"an instance of {kind.__name__}"
    takes_none = type(None) in typing.get_args(field.annotation) and field.default is not None
    return f"{words} {' and '.join(bounds)}".strip() + (" or null" if takes_none else "")


def element_of(field: FieldInfo) -> FieldInfo:
    """The declaration of the elements of a tuple, or of the value itself."""
    kind, _ = value_type(field)
    is_tuple = typing.get_origin(kind) is tuple
    return FieldInfo.from_annotation(typing.get_args(kind)[0]) if is_tuple else field


def parse_value(field: FieldInfo, text: str) -> Any:
    """Parses the text of a value, or of an element of a tuple.

    Raises:
        ValueError: it is not allowed; the message does not name the setting.
    """
    field = element_of(field)
    annotation = field.annotation
    if field.metadata:
        annotation = Annotated[(annotation, *field.metadata)]
    adapter = pydantic.TypeAdapter(annotation, config={**_RULES, "strict": False})
    try:
        return adapter.validate_strings(text)
    except pydantic.ValidationError as error:
        cause = error.errors()[0].get("ctx", {}).get("error")
        raise ValueError(cause or f"must be {allowed_values(field)}, not {text!r}") from None


def check_keys(options: Any, allowed: Iterable[str], place: str) -> None:
    """Checks that `options` is a mapping with allowed keys only; suggests the nearest key."""
    if not isinstance(options, Mapping):
        raise ValueError(f"`{place}` must be an object of names and values. Received: {options!r}")
    for key in options:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            raise ValueError(
                f"Unknown key `{key}` in `{place}`.{hint} Allowed: {', '.join(sorted(allowed))}."
            )


def _message(config_class: Any, error: pydantic.ValidationError) -> str:
    """The first error in one line, without pydantic's addresses and types."""
    first = error.errors(include_url=False)[0]
    fields, cause = settings_of(config_class), first.get("ctx", {}).get("error")
    if not first["loc"]:  # raised by `__post_init__`
        return str(cause)
    name, *_ = first["loc"]
    if name not in fields:
        check_keys({name: None}, fields, config_class.__name__)
    field = fields[name]
    place = option_of(field).place or name
    if first["type"] == "missing":
        return f"`{place}` is missing."
    rule = cause or f"must be {allowed_values(field)}. Received: {first['input']!r}"
    return f"`{place}` {rule}"


def settings_as_json(config: Any) -> dict[str, Any]:
    """The settings as JSON values: tuples become lists, and paths strings."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=os.fspath))


def check_same_settings(
    config_class: Any, now: Mapping[str, Any], before: Mapping[str, Any], path: Path
) -> None:
    """Raises `ValueError` if a setting that must stay the same changes when a run is resumed.

    Args:
        config_class: the dataclass of the settings.
        now: settings of the resumed run, see `settings_as_json`.
        before: the settings in the file `path`. Missing ones had their default.
    """
    fields = settings_of(config_class)
    before = {name: field.default for name, field in fields.items()} | before
    fixed = [name for name, field in fields.items() if not option_of(field).may_change]
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


class RunSettings:
    """Base of the settings of a run, which records them in its work directory to be resumed."""

    RECORD: ClassVar[str]  # name of the file, see `read_record`
    EXCLUSIVE: ClassVar[tuple[tuple[str, str], ...]] = ()

    def _fill(self, **defaults: Any) -> None:
        """Sets the settings that are None; only for `__post_init__`."""
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    @classmethod
    def resumed(cls, workdir: str | os.PathLike, **changes: Any) -> Self:
        """The settings that resume the run in a work directory.

        Args:
            workdir: holds the record. Paths in it are relative to the current directory.
            **changes: settings that replace those of the run. Training refuses changes of settings
                that must stay the same.

        Raises:
            FileNotFoundError: there is no record.
            ValueError: it is damaged, or a value is not allowed.
        """
        path = Path(workdir, cls.RECORD)
        if not path.is_file():
            raise FileNotFoundError(
                f"{path.parent} contains no run to resume: there is no {path.name}."
            )
        recorded = read_record(path)["settings"]
        changes = {"workdir": path.parent, **changes, "resume": True}
        settings = {name: recorded[name] for name in settings_of(cls) if name in recorded} | changes
        for first, second in cls.EXCLUSIVE:
            # A change drops the other's record. The recorded options are those of the preset.
            if settings.get(first) and settings.get(second):
                if second not in changes:
                    del settings[second]
                elif first not in changes:
                    del settings[first]
        return cls(**settings)


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
