"""Lines of a text that are not as they should be, and what becomes of them."""


def data_warnings(*kinds: tuple[int, str]) -> str:
    """A line that tells how many lines are odd, kind by kind; nothing if there are none.

    Args:
        kinds: how many there are, and what they are.
    """
    found = [f"{number:,} {kind}" for number, kind in kinds if number]
    return f"Odd lines: {', '.join(found)}." if found else ""


def is_utf_8(line: str) -> bool:
    """Whether no lone surrogate stands for an invalid byte."""
    if line.isascii():
        return True
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
