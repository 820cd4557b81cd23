"""Checks of arguments. Each raises a `ValueError` that names the argument."""

from collections.abc import Iterable
from typing import Any


def is_int(value: Any) -> bool:
    """Whether a value is an integer and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a number and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_bool(value: Any, place: str) -> None:
    """Checks that a value is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"`{place}` must be true or false. Received: {value!r}")


def check_choice(value: Any, place: str, allowed: Iterable[str]) -> None:
    """Checks that a value is one of the allowed ones."""
    allowed = list(allowed)
    if value not in allowed:
        raise ValueError(f"`{place}` must be one of {', '.join(allowed)}. Received: {value!r}")


def check_int(value: Any, place: str, ge: int) -> None:
    """Checks that a value is an integer >= `ge`."""
    if not is_int(value) or value < ge:
        raise ValueError(f"`{place}` must be an integer of at least {ge}. Received: {value!r}")


def check_rate(value: Any, place: str) -> None:
    """Checks that a value is a number in [0, 1)."""
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"`{place}` must be a number >= 0 and < 1. Received: {value!r}")
