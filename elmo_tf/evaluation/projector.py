"""Tokens in context ─► a folder for TensorBoard's embedding projector.

The folder holds `projector_config.pbtxt`, `metadata.tsv` (a row for each token) and a file of
float32 numbers for each tensor.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from elmo_tf.config_checks import check_int
from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.visible_text import visible
from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_directory, refuse_directory, refuse_pattern
from elmo_tf.progress import progress
from elmo_tf.tasks.data.tagged_sentences import read_tagged
from elmo_tf.text.data_warnings import data_warnings, is_utf_8
from elmo_tf.text.sentence_files import format_of, sentence_reader

MAX_TOKENS = 10_000
METADATA_FILE = "metadata.tsv"
_CONFIG_FILE = "projector_config.pbtxt"
_WRITTEN = (METADATA_FILE, _CONFIG_FILE, "*.bytes")
# Tokens shown to each side of one.
_CONTEXT = 10


class TokenOccurrences(NamedTuple):
    """A sentence, and those of its tokens that are exported.

    number: of the sentence in its file, from 0.
    positions: of the tokens in the sentence, from 0, at least one.
    tags: of all its tokens, or None.
    """

    number: int
    tokens: list[str]
    positions: list[int]
    tags: list[str] | None = None


def read_occurrences(
    path: str | os.PathLike,
    max_tokens: int = MAX_TOKENS,
    words: Iterable[str] | None = None,
    format: str | None = None,
    token_column: int | None = None,
    tag_column: int | None = None,
) -> list[TokenOccurrences]:
    """Reads the tokens to be exported, with their sentences.

    Args:
        path: tokenised sentences, or CoNLL columns; `.gz` is unpacked.
        max_tokens: int >= 1. The first so many are taken; a warning tells of others.
        words: None, or the tokens that are taken, in the case that they are in.
        format, token_column: see `sentence_reader`.
        tag_column: int >= 1, of CoNLL columns, or None for no tags; see `read_tagged`.

    Raises:
        TypeError: `words` is one string.
        ValueError: there is no such token, the file is damaged, or has no columns for tags.
        OSError: the file cannot be read.
    """
    check_int(max_tokens, "max_tokens", least=1)
    if isinstance(words, str):
        raise TypeError(
            f"`words` must be several tokens, not one string: {words!r}. Put it in a list."
        )
    wanted = None if words is None else set(words)
    found, left = [], max_tokens
    for number, (tokens, tags) in enumerate(_sentences(path, format, token_column, tag_column)):
        positions = [i for i, token in enumerate(tokens) if wanted is None or token in wanted]
        is_cut = len(positions) > left
        positions = positions[:left]
        left -= len(positions)
        if positions:
            found.append(TokenOccurrences(number, tokens, positions, tags))
        if is_cut:
            logging.warning(
                "Only the first %s of the tokens are taken (max_tokens, --max-tokens).",
                f"{max_tokens:,}",
            )
            break
    if not found:
        sought = "has no token" if wanted is None else f"has none of {', '.join(sorted(wanted))}"
        raise ValueError(f"{os.fspath(path)} {sought}.")
    invalid = sum(not is_utf_8(" ".join(occurrence.tokens)) for occurrence in found)
    if invalid:
        told = (invalid, "with invalid UTF-8 (read byte for byte; another encoding?)")
        logging.warning("%s", data_warnings(told))
    return found


def _sentences(
    path: str | os.PathLike, format: str | None, token_column: int | None, tag_column: int | None
) -> Iterator[tuple[list[str], list[str] | None]]:
    if tag_column is not None:
        if (format or format_of(path)) == "text":
            raise ValueError(
                f"Tags (tag_column, --tag-column) are of CoNLL columns; {os.fspath(path)} is text "
                "by its name. Name its format (format, --input-format), if it has columns."
            )
        yield from read_tagged(path, format, token_column, tag_column)
    else:
        for sentence in sentence_reader(path, format, token_column)():
            yield sentence.tokens, None


def check_projector(logdir: str | os.PathLike, overwrite: bool = False) -> None:
    """Refuses, before the work begins, what could not be written.

    Raises:
        MissingExtraError: TensorBoard is not installed.
        FileExistsError: the folder is not empty and may not be replaced, or it holds more than
            would be written.
        ValueError: TensorFlow takes the name for a pattern.
    """
    require_extra("tensorboard", "tensorboard", "The projector")
    refuse_pattern(logdir)
    refuse_directory(logdir, overwrite, _WRITTEN)


def export_projector(
    embedder: Embedder,
    occurrences: Sequence[TokenOccurrences],
    logdir: str | os.PathLike,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes a folder that `tensorboard --logdir` shows.

    Of each token the metadata tell `token`, `context` (up to 10 tokens to each side), `sentence`
    and `position`, both from 0, and `tag` if there are tags.

    Args:
        embedder: gives the vectors; of `layers="all"`, each layer is a tensor.
        occurrences: of `read_occurrences`, at least one.
        logdir: the folder, which appears when it is complete.
        overwrite: whether an earlier export there may be replaced.

    Returns:
        "tensors" (their names), "tokens" (how many) and "dim" (the width of a vector).

    Raises:
        MissingExtraError, FileExistsError, ValueError: see `check_projector`.
    """
    check_projector(logdir, overwrite)
    names = _tensor_names(embedder)
    num_tokens = sum(len(occurrence.positions) for occurrence in occurrences)
    with atomic_directory(logdir, overwrite, _WRITTEN) as part:
        _write_metadata(part / METADATA_FILE, occurrences)
        _write_tensors(embedder, occurrences, [part / f"{name}.bytes" for name in names])
        _write_config(part, names, (num_tokens, embedder.dim))
    return {"tensors": names, "tokens": num_tokens, "dim": embedder.dim}


def _tensor_names(embedder: Embedder) -> list[str]:
    if embedder.layers != "all":
        return [embedder.layers]
    return [f"layer_{layer}" for layer in range(embedder.bilm.config.lstm.num_layers + 1)]


def _write_metadata(path: Path, occurrences: Sequence[TokenOccurrences]) -> None:
    is_tagged = occurrences[0].tags is not None
    columns = ["token", "context", "sentence", "position"] + ["tag"] * is_tagged
    # With another end of line, the last column's name and values would end in it.
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        print(*columns, sep="\t", file=file)
        for number, tokens, positions, tags in occurrences:
            for place in positions:
                tag = [tags[place]] if tags is not None else []
                row = [tokens[place], _context(tokens, place), str(number), str(place), *tag]
                print(*map(visible, row), sep="\t", file=file)


def _context(tokens: Sequence[str], place: int) -> str:
    """A token in [ ] with those around it."""
    first, end = max(0, place - _CONTEXT), place + _CONTEXT + 1
    before, after = tokens[first:place], tokens[place + 1 : end]
    cut_before, cut_after = ["…"] * (first > 0), ["…"] * (end < len(tokens))
    return " ".join([*cut_before, *before, f"[{tokens[place]}]", *after, *cut_after])


def _write_tensors(
    embedder: Embedder, occurrences: Sequence[TokenOccurrences], paths: Sequence[Path]
) -> None:
    """A file of rows for each tensor. No more than some batches of vectors are in memory."""
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(open(path, "wb")) for path in paths]
        meter = opened.enter_context(progress(len(occurrences), "embedding", "sentences"))
        sentences = embedder.embed(occurrence.tokens for occurrence in occurrences)
        for vectors, occurrence in zip(sentences, occurrences, strict=True):
            chosen = vectors[..., occurrence.positions, :].astype("<f4")
            layers = chosen.reshape(len(files), len(occurrence.positions), embedder.dim)
            for file, layer in zip(files, layers, strict=True):
                file.write(_never_text(layer) if file.tell() == 0 else layer.tobytes())
            meter.update(1)


def _never_text(rows: np.ndarray) -> bytes:
    """The bytes of a tensor's first rows, such that TensorBoard does not take them for text.

    It reads a tensor as tab-separated text unless that is no UTF-8, and numbers can be both. The
    byte 255 is never part of UTF-8. As the lowest of the first number it changes that number by at
    most a part in 30,000.
    """
    return b"\xff" + rows.tobytes()[1:]


def _write_config(folder: Path, names: Sequence[str], shape: tuple[int, int]) -> None:
    projector = require_extra("tensorboard.plugins.projector", "tensorboard", "The projector")
    config = projector.ProjectorConfig()
    for name in names:
        config.embeddings.add(
            tensor_name=name,
            tensor_shape=shape,
            tensor_path=f"{name}.bytes",
            metadata_path=METADATA_FILE,
        )
    projector.visualize_embeddings(os.fspath(folder), config)
