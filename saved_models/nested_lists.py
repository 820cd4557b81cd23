"""Tensors as JSON writes them: nested lists."""

from typing import Any


def shape_of(value: Any) -> list[int]:
    """What the first element of each list says that the others must look like."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape
