"""Text files ─► parts of about 256 KiB, each for one worker and one shard."""

import io
import os
from collections.abc import Iterator
from typing import NamedTuple

from elmo_tf.text.sentence_files import FileSentence, format_of, sentence_reader, text_sentences
from elmo_tf.text.vocabulary import is_compressed

PART_BYTES = 2**18


class TextPart(NamedTuple):
    """Consecutive sentences of a file."""

    file: str
    start: int | None  # bytes; None for a complete file
    end: int | None
    first: int  # index of the first sentence in the file
    sentences: int  # number of sentences


def parts_of(
    path: str | os.PathLike,
    format: str | None = None,
    token_column: int | None = None,
    part_bytes: int = PART_BYTES,
) -> list[TextPart]:
    """Divides a file at line ends into parts, and counts their sentences.

    Compressed files and columns are one part; an empty file has none. The last line of a part may
    exceed `part_bytes`. For the other arguments and errors, see `sentence_reader`.
    """
    path = os.fspath(path)
    if (format or format_of(path)) == "text" and not is_compressed(path):
        return list(_text_parts(path, part_bytes))
    count = sum(1 for _ in sentence_reader(path, format, token_column)())
    return [TextPart(path, None, None, 0, count)] if count else []


def _text_parts(path: str, part_bytes: int) -> Iterator[TextPart]:
    first = start = 0
    with open(path, "rb") as file:
        while chunk := file.read(part_bytes):
            chunk += file.readline()
            count = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
            yield TextPart(path, start, start + len(chunk), first, count)
            first, start = first + count, start + len(chunk)


def sentences_of(
    part: TextPart, format: str | None = None, token_column: int | None = None
) -> Iterator[FileSentence]:
    """Yields the sentences of a part, or raises `ValueError` if the file has changed."""
    if part.start is None:
        sentences, size = sentence_reader(part.file, format, token_column)(), 0
    else:
        with open(part.file, "rb") as file:
            file.seek(part.start)
            stream = io.BytesIO(file.read(part.end - part.start))
        stream.name = part.file  # for error messages
        sentences, size = text_sentences(stream, part.first), len(stream.getvalue())
    count = 0
    for count, sentence in enumerate(sentences, start=1):  # noqa: B007 - counts them
        yield sentence
    if count != part.sentences or size != (part.end or 0) - (part.start or 0):
        raise ValueError(
            f"{part.file} has changed since the job began. Start again with another output folder, "
            "or replace it (overwrite=True, --overwrite)."
        )
