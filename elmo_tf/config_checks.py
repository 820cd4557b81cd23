"""Checks of configurations: errors that name the place, what is allowed, and what came."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def check_keys(options: Any, allowed: Iterable[str], place: str) -> None:
    """Refuses anything but an object of allowed keys, and names the nearest one."""
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
    """Refuses an object that lacks a key."""
    for key in keys:
        if key not in options:
            raise ValueError(f"`{place}.{key}` is missing.")


def is_int(value: Any) -> bool:
    """Whether it is an integer; a bool is none here."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_pair(value: Any) -> bool:
    """Whether it is two positive integers."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(is_int(part) and part >= 1 for part in value)
    )


def check_bool(value: Any, place: str) -> None:
    """Refuses anything but true and false."""
    if not isinstance(value, bool):
        raise ValueError(f"`{place}` must be true or false. Received: {value!r}")


def check_choice(value: Any, place: str, allowed: Iterable[str]) -> None:
    """Raises `ValueError` if a value is none of those allowed."""
    allowed = list(allowed)
    if value not in allowed:
        raise ValueError(f"`{place}` must be one of {', '.join(allowed)}. Received: {value!r}")


def check_int(value: Any, place: str, least: int, reason: str = "") -> None:
    """Refuses anything but an integer of at least `least`; `reason` says why so much."""
    if not is_int(value) or value < least:
        raise ValueError(
            f"`{place}` must be an integer of at least {least}"
            f"{f' ({reason})' if reason else ''}. Received: {value!r}"
        )


def check_rate(value: Any, place: str) -> None:
    """Refuses anything but a number from 0 to below 1."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1:
        raise ValueError(f"`{place}` must be a number from 0 to below 1. Received: {value!r}")
