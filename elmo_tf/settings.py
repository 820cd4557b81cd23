"""Settings of a run, each declared once.

A setting is a field of a frozen dataclass: its type, range, default, help text, and whether it may
change when a run is resumed. The command line, the checks, the rule for resuming and the tables of
the documentation are derived from these declarations.
"""

import argparse
import dataclasses
import functools
import json
import math
import os
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Setting:
    """The declaration of a setting.

    help: a phrase for `--help`, without the default.
    kind: int, float, str, bool (a flag), tuple (several strings) or object; by default the type
        with which the field is annotated.
    group: title of its group in `--help`; by default that of the setting before it.
    choices: allowed values; empty allows all in the range.
    least, above, below, most: the range of a number; None for no bound.
    metavar: placeholder for the value in `--help`.
    option: name of the command-line option, if it is not that of the field; None for no option.
    usual: what the help says of the default, if the default itself does not tell.
    may_change: whether it may differ when a run is resumed.
    """

    help: str
    kind: type | None = None
    group: str = ""
    choices: tuple = ()
    least: float | None = None
    above: float | None = None
    below: float | None = None
    most: float | None = None
    metavar: str | None = None
    option: str | None = ""
    usual: str | None = None
    may_change: bool = False

    @property
    def allowed(self) -> str:
        """The allowed values, such as "an integer of at least 1"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        words = {int: "an integer", float: "a number"}.get(self.kind, "a string")
        bounds = [
            f"{name} {bound:g}"
            for name, bound in (
                ("of at least", self.least),
                ("above", self.above),
                ("below", self.below),
                ("of at most", self.most),
            )
            if bound is not None
        ]
        return f"{words} {' and '.join(bounds)}".strip()

    def allows(self, value: Any) -> bool:
        """Whether a value has the type and is in the range."""
        if self.choices:
            return value in self.choices
        if self.kind not in (int, float):
            return isinstance(value, self.kind) and value != ""
        kinds = int if self.kind is int else int | float
        if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
            return False
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.most is None or value <= self.most)
        )

    def parse(self, text: str) -> Any:
        """The value of an option. Raises `argparse.ArgumentTypeError` if it is not allowed."""
        try:
            value = self.kind(text) if self.kind in (int, float) else text
        except ValueError:
            value = None
        if value is None or not self.allows(value):
            raise argparse.ArgumentTypeError(f"must be {self.allowed}, not {text!r}")
        return value


def setting(default: Any = dataclasses.MISSING, **declaration: Any) -> Any:
    """A field of a dataclass of settings.

    Args:
        default: its default; a field without one must be given.
        **declaration: the arguments of `Setting`.
    """
    return dataclasses.field(
        default=default, metadata={"setting": Setting(**{"metavar": "N", **declaration})}
    )


@functools.cache
def settings_of(config_class: Any) -> dict[str, Setting]:
    """The declarations of a dataclass of settings, by their names."""
    types, group, declared = typing.get_type_hints(config_class), "", {}
    for field in dataclasses.fields(config_class):
        one = field.metadata["setting"]
        group = one.group or group
        kinds = [one.kind, *typing.get_args(types[field.name]), types[field.name]]
        kind = next((kind for kind in kinds if kind in (int, float, str, bool)), object)
        if typing.get_origin(types[field.name]) is tuple:
            kind = tuple
        declared[field.name] = dataclasses.replace(one, group=group, kind=kind)
    return declared


def normalize_settings(config: Any) -> None:
    """Turns paths into strings, and one path where several are expected into a tuple of one."""
    for name, one in settings_of(type(config)).items():
        value = getattr(config, name)
        if one.kind is tuple:
            value = (value,) if isinstance(value, str | os.PathLike) else value or ()
            value = tuple(map(os.fspath, value))
        elif isinstance(value, os.PathLike) and one.kind is str:
            value = os.fspath(value)
        object.__setattr__(config, name, value)


def check_settings(config: Any, exclusive: Iterable[tuple[str, str]]) -> None:
    """Checks the type and range of each setting.

    Args:
        config: a dataclass of settings.
        exclusive: pairs of settings of which only one may be set.

    Raises:
        ValueError: a value is not allowed, or two exclude each other.
    """
    declared = settings_of(type(config))
    for field in dataclasses.fields(config):
        one, value = declared[field.name], getattr(config, field.name)
        if value is None and field.default is None:
            continue
        if one.kind is bool and not isinstance(value, bool):
            raise ValueError(f"`{field.name}` must be true or false. Received: {value!r}")
        if not one.allows(value):
            raise ValueError(f"`{field.name}` must be {one.allowed}. Received: {value!r}")
    for first, second in exclusive:
        # Flags are False where other settings are None.
        if getattr(config, first) and getattr(config, second):
            raise ValueError(f"`{first}` and `{second}` exclude each other: pass one of them.")


def settings_as_json(config: Any) -> dict[str, Any]:
    """The settings as a JSON file holds them: tuples are lists, and paths are strings."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=os.fspath))


def changed_settings(
    config_class: Any, now: Mapping[str, Any], before: Mapping[str, Any]
) -> list[str]:
    """Descriptions of the settings that must not change when a run is resumed, but did.

    Args:
        config_class: the dataclass of the settings.
        now: the settings of the resumed run, see `settings_as_json`.
        before: those of the run before. A setting that it lacks had its default.
    """
    declared = settings_of(config_class)
    before = {**{one.name: one.default for one in dataclasses.fields(config_class)}, **before}
    return [
        f"{name} was {before[name]!r}, is {now[name]!r}"
        for name, one in declared.items()
        if not one.may_change and before[name] != now[name]
    ]


def resumed_settings(
    config_class: Any, path: Path, changes: Mapping[str, Any], exclusive: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """The settings that resume a run.

    Args:
        config_class: the dataclass of the settings.
        path: the record of the run, see `read_record`.
        changes: settings that replace recorded ones.
        exclusive: pairs of settings of which only one may be set. A change of one of them drops
            the recorded value of the other.

    Raises:
        FileNotFoundError: there is no record.
        ValueError: it is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} holds no run to resume: there is no {path.name}.")
    changes = {**changes, "resume": True}
    pairs = [pair for both in exclusive for pair in (both, both[::-1])]
    dropped = {other for name, other in pairs if changes.get(name)}
    names = settings_of(config_class).keys() - dropped
    recorded = read_record(path)["settings"]
    return {**{name: recorded[name] for name in names & recorded.keys()}, **changes}


def read_record(path: Path) -> dict[str, Any]:
    """The record of a run: its `settings`, and its results.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
            raise ValueError("it has no settings.")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    return record


def add_settings(
    parser: argparse.ArgumentParser, config_class: Any, leave_out: Iterable[str] = ()
) -> None:
    """Adds an option for each setting, in their groups. Only options that are given are set.

    Args:
        parser: of a subcommand.
        config_class: the dataclass of the settings.
        leave_out: names of settings that get no option.
    """
    groups: dict[str, Any] = {}
    for field in dataclasses.fields(config_class):
        one = settings_of(config_class)[field.name]
        if field.name in leave_out or one.option is None:
            continue
        if one.group not in groups:
            groups[one.group] = parser.add_argument_group(one.group)
        _add_option(groups[one.group], field, one)


def _add_option(group: Any, field: dataclasses.Field, one: Setting) -> None:
    option = one.option or f"--{field.name.replace('_', '-')}"
    shared: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS}
    if one.kind is bool:
        action = "store_false" if field.default else "store_true"
        group.add_argument(option, action=action, help=one.help, **shared)
        return
    usual = one.usual
    if usual is None and field.default not in (None, (), "", dataclasses.MISSING):
        usual = f"{field.default:g}" if one.kind is float else str(field.default)
    shared["help"] = f"{one.help} (default: {usual})" if usual else one.help
    if one.kind is tuple:
        group.add_argument(option, nargs="+", metavar=one.metavar, **shared)
    elif one.choices:
        group.add_argument(option, choices=one.choices, **shared)
    else:
        group.add_argument(option, type=one.parse, metavar=one.metavar, **shared)


def config_from_options(
    parser: argparse.ArgumentParser, config_class: Any, given: Mapping[str, Any]
) -> Any:
    """The configuration of a run, or of a resumed one, which needs only the changes.

    Args:
        parser: of the call. It ends the call with status 2 if an option is missing or wrong.
        config_class: the dataclass of the settings, with `resumed`.
        given: the settings that the call sets, perhaps among others.
    """
    settings = {name: given[name] for name in settings_of(config_class) if name in given}
    reason = ""
    if settings.get("resume") and "workdir" in settings:
        try:
            return config_class.resumed(**settings)
        except FileNotFoundError:
            reason = f" ({settings['workdir']} holds no run to resume)"
    needed = [one for one in dataclasses.fields(config_class) if one.default is dataclasses.MISSING]
    missing = ", ".join(f"--{one.name}" for one in needed if one.name not in settings)
    if missing:
        parser.error(f"the following arguments are required: {missing}{reason}")
    return config_class(**settings)
