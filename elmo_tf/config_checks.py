"""Checks of configuration values. Each raises a `ValueError` that names the option."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


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


def check_required(options: Mapping[str, Any], keys: Iterable[str], place: str) -> None:
    """Checks that no key is missing."""
    for key in keys:
        if key not in options:
            raise ValueError(f"`{place}.{key}` is missing.")


def is_int(value: Any) -> bool:
    """Whether a value is an integer and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a number and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_pair(value: Any) -> bool:
    """Whether a value is a pair of positive integers."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(is_int(part) and part >= 1 for part in value)
    )


def check_bool(value: Any, place: str) -> None:
    """Checks that a value is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"`{place}` must be true or false. Received: {value!r}")


def check_choice(value: Any, place: str, allowed: Iterable[str]) -> None:
    """Checks that a value is one of the allowed ones."""
    allowed = list(allowed)
    if value not in allowed:
        raise ValueError(f"`{place}` must be one of {', '.join(allowed)}. Received: {value!r}")


def check_int(value: Any, place: str, least: int, reason: str = "") -> None:
    """Checks that a value is an integer >= `least`; the message includes `reason`."""
    if not is_int(value) or value < least:
        raise ValueError(
            f"`{place}` must be an integer of at least {least}"
            f"{f' ({reason})' if reason else ''}. Received: {value!r}"
        )


def check_rate(value: Any, place: str) -> None:
    """Checks that a value is a number in [0, 1)."""
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"`{place}` must be a number >= 0 and < 1. Received: {value!r}")
