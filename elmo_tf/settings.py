"""Settings of a run, each declared once as a field of a frozen dataclass.

The command-line options, checks, rules for resuming and tables of the documentation are derived
from these declarations.
"""

import argparse
import dataclasses
import functools
import json
import math
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Setting:
    """The declaration of a setting.

    help: text for `--help`, without the default.
    kind: int, float, str, bool (a flag), tuple (of strings) or object. Defaults to the annotated
        type of the field.
    group: group title in `--help`. Defaults to that of the previous setting.
    choices: allowed values; empty if all values in the range are allowed.
    least, above, below, most: bounds of a number, or None.
    metavar: placeholder for the value in `--help`.
    option: command-line option; "" derives it from the field name, None declares none.
    usual: description of the default in `--help`, if it is not the default value itself.
    may_change: whether it may change when a run is resumed.
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
        """Description of the allowed values, such as "an integer of at least 1"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        names = {bool: "true or false", int: "an integer", float: "a number"}
        words = names.get(self.kind, "a string")
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
        """Whether a value has the right type and is in range."""
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
        """Parses an option's value. Raises `argparse.ArgumentTypeError` if it is not allowed."""
        try:
            value = self.kind(text) if self.kind in (int, float) else text
        except ValueError:
            value = None
        if value is None or not self.allows(value):
            raise argparse.ArgumentTypeError(f"must be {self.allowed}, not {text!r}")
        return value


def setting(default: Any = dataclasses.MISSING, **declaration: Any) -> Any:
    """Declares a field of a settings dataclass.

    Args:
        default: the default; without one, the setting is required.
        **declaration: arguments of `Setting`.
    """
    return dataclasses.field(
        default=default, metadata={"setting": Setting(**{"metavar": "N", **declaration})}
    )


@functools.cache
def settings_of(config_class: Any) -> dict[str, Setting]:
    """Returns the declarations of a settings dataclass by name."""
    types, group, declared = typing.get_type_hints(config_class), "", {}
    for field in dataclasses.fields(config_class):
        declaration = field.metadata["setting"]
        group = declaration.group or group
        kinds = [declaration.kind, *typing.get_args(types[field.name]), types[field.name]]
        kind = next((kind for kind in kinds if kind in (int, float, str, bool)), object)
        if typing.get_origin(types[field.name]) is tuple:
            kind = tuple
        declared[field.name] = dataclasses.replace(declaration, group=group, kind=kind)
    return declared


def normalize_settings(config: Any) -> None:
    """Converts paths to strings, and a single path to a tuple if the setting is a tuple."""
    for name, declaration in settings_of(type(config)).items():
        value = getattr(config, name)
        if declaration.kind is tuple:
            value = (value,) if isinstance(value, str | os.PathLike) else value or ()
            value = tuple(map(os.fspath, value))
        elif isinstance(value, os.PathLike) and declaration.kind is str:
            value = os.fspath(value)
        object.__setattr__(config, name, value)


def check_settings(config: Any, exclusive: Iterable[tuple[str, str]]) -> None:
    """Checks the type and range of each setting.

    Args:
        config: a settings dataclass.
        exclusive: pairs of settings that exclude each other.

    Raises:
        ValueError: a value is not allowed, or two settings exclude each other.
    """
    declared = settings_of(type(config))
    for field in dataclasses.fields(config):
        declaration, value = declared[field.name], getattr(config, field.name)
        if value is None and field.default is None:
            continue
        if not declaration.allows(value):
            raise ValueError(f"`{field.name}` must be {declaration.allowed}. Received: {value!r}")
    for first, second in exclusive:
        if getattr(config, first) and getattr(config, second):
            raise ValueError(f"`{first}` and `{second}` exclude each other: pass one of them.")


def settings_as_json(config: Any) -> dict[str, Any]:
    """The settings as JSON values: tuples become lists, and paths strings."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=os.fspath))


def check_same_settings(
    config_class: Any, now: Mapping[str, Any], before: Mapping[str, Any], path: Path
) -> None:
    """Checks that a run is resumed with the settings that must stay the same.

    Args:
        config_class: the settings dataclass.
        now: settings of the resumed run, see `settings_as_json`.
        before: recorded settings. Missing ones had their default.
        path: the file of the recorded settings, for the message.

    Raises:
        ValueError: a setting has changed.
    """
    declared = settings_of(config_class)
    before = {field.name: field.default for field in dataclasses.fields(config_class)} | before
    changed = [
        f"{name} was {before[name]!r}, is {now[name]!r}"
        for name, declaration in declared.items()
        if not declaration.may_change and before[name] != now[name]
    ]
    if changed:
        raise ValueError(
            f"Cannot resume with other settings than those in {path}: {'; '.join(changed)}. Pass "
            "the same ones, or choose another --workdir."
        )


def resumed_settings(
    config_class: Any, path: Path, changes: Mapping[str, Any], exclusive: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Returns the recorded settings of a run, with changes, to resume it.

    Args:
        config_class: the settings dataclass.
        path: the record of the run, see `read_record`.
        changes: settings that replace recorded ones.
        exclusive: pairs of settings that exclude each other. A change of one drops the recorded
            value of the other.

    Raises:
        FileNotFoundError: there is no record.
        ValueError: the record is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path.parent} contains no run to resume: there is no {path.name}."
        )
    changes = {**changes, "resume": True}
    pairs = [pair for both in exclusive for pair in (both, both[::-1])]
    dropped = {other for name, other in pairs if changes.get(name)}
    names = settings_of(config_class).keys() - dropped
    recorded = read_record(path)["settings"]
    return {**{name: recorded[name] for name in names & recorded.keys()}, **changes}


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


def add_settings(
    parser: argparse.ArgumentParser, config_class: Any, leave_out: Iterable[str] = ()
) -> None:
    """Adds an option for each setting. The namespace contains only the options that are given.

    Args:
        parser: parser of a subcommand.
        config_class: the settings dataclass.
        leave_out: settings without an option. If "resume" is one of them, the required settings
            must always be given.
    """
    groups: dict[str, Any] = {}
    has_resume = "resume" not in leave_out
    for field in dataclasses.fields(config_class):
        declaration = settings_of(config_class)[field.name]
        if field.name in leave_out or declaration.option is None:
            continue
        title = declaration.group
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        _add_option(groups[title], field, declaration, has_resume)


def _add_option(group: Any, field: dataclasses.Field, declared: Setting, has_resume: bool) -> None:
    option = declared.option or f"--{field.name.replace('_', '-')}"
    shared: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS}
    if declared.kind is bool:
        action = "store_false" if field.default else "store_true"
        group.add_argument(option, action=action, help=declared.help, **shared)
        return
    usual = declared.usual
    if usual is None and field.default not in (None, (), "", dataclasses.MISSING):
        usual = f"{field.default:g}" if declared.kind is float else str(field.default)
    if field.default is dataclasses.MISSING:
        note = " (required without --resume)" if has_resume else " (required)"
    else:
        note = f" (default: {usual})" if usual else ""
    shared["help"] = declared.help + note
    if declared.kind is tuple:
        group.add_argument(option, nargs="+", metavar=declared.metavar, **shared)
    elif declared.choices:
        group.add_argument(option, choices=declared.choices, **shared)
    else:
        group.add_argument(option, type=declared.parse, metavar=declared.metavar, **shared)


def config_from_options(
    refuse_call: Callable[[str], Any], config_class: Any, given: Mapping[str, Any]
) -> Any:
    """Builds the configuration of a run. A resumed run needs only the settings that change.

    Args:
        refuse_call: exits with status 2 and a message; called if a required option is missing.
        config_class: the settings dataclass, with a class method `resumed`.
        given: the parsed options; other names are ignored.
    """
    settings = {name: given[name] for name in settings_of(config_class) if name in given}
    reason = ""
    if settings.get("resume") and "workdir" in settings:
        try:
            return config_class.resumed(**settings)
        except FileNotFoundError:
            reason = f" ({settings['workdir']} contains no run to resume)"
    missing = ", ".join(
        f"--{field.name}"
        for field in dataclasses.fields(config_class)
        if field.default is dataclasses.MISSING and field.name not in settings
    )
    if missing:
        refuse_call(f"the following arguments are required: {missing}{reason}")
    return config_class(**settings)
