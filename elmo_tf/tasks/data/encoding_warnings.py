"""Warnings about task files that are not UTF-8."""

import os
from collections.abc import Iterable

from absl import logging

from elmo_tf.text.data_warnings import is_utf_8


def warn_of_invalid_utf_8(
    path: str | os.PathLike, items: Iterable[Iterable[str]], kind: str
) -> None:
    """Logs how many items have invalid UTF-8, if any.

    Args:
        path: the file, for the message.
        items: the strings of each item.
        kind: what the items are, in the plural, such as "sentences".
    """
    is_valid = [all(map(is_utf_8, strings)) for strings in items]
    if not all(is_valid):
        logging.warning(
            "%s: %s of %s %s have invalid UTF-8, which is kept. Is it another encoding?",
            *(os.fspath(path), f"{is_valid.count(False):,}", f"{len(is_valid):,}", kind),
        )
