"""Tensors as nested lists, as in JSON."""

from typing import Any


def shape_of(value: Any) -> list[int]:
    """Returns the shape of nested lists, judged by the first element of each."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape
