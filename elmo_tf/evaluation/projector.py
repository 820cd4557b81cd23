"""Export of tokens in context for TensorBoard's embedding projector.

The directory holds `projector_config.pbtxt`, `metadata.tsv` (one row per token) and one file of
float32 numbers per tensor.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

from elmo_tf.config_checks import check_int
from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.visible_text import in_context, visible
from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_directory, refuse_directory, refuse_pattern
from elmo_tf.progress import progress
from elmo_tf.tasks.data.tagged_sentences import read_tagged
from elmo_tf.text.data_warnings import data_warnings, is_utf_8
from elmo_tf.text.sentence_files import format_of, sentence_reader

MAX_TOKENS = 10_000
METADATA_FILE = "metadata.tsv"
_CONFIG_FILE = "projector_config.pbtxt"
_FILES = (METADATA_FILE, _CONFIG_FILE, "*.bytes")
_CONTEXT = 10  # tokens on each side


class TokenOccurrences(NamedTuple):
    """A sentence and the positions of its exported tokens.

    Attributes:
        number: of the sentence in its file, from 0.
        tokens: of the sentence.
        positions: of the exported tokens, from 0, at least one.
        tags: of all tokens of the sentence, or None.
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
    """Reads the tokens to export, with their sentences.

    Args:
        path: tokenized sentences or CoNLL columns, also as `.gz`.
        max_tokens: int >= 1. Maximum number of tokens, from the beginning of the file. Further
            tokens are ignored with a warning.
        words: the tokens to export, case-sensitive. None exports all.
        format, token_column: see `sentence_reader`.
        tag_column: int >= 1, of CoNLL columns, see `read_tagged`. None reads no tags.

    Raises:
        TypeError: `words` is one string.
        ValueError: the file has none of the tokens, is damaged, or has no columns for tags.
        OSError: the file cannot be read.
    """
    check_int(max_tokens, "max_tokens", ge=1)
    if isinstance(words, str):
        raise TypeError(f"`words` must be several tokens, not one string: {words!r}. Pass a list.")
    wanted = None if words is None else set(words)
    found, left = [], max_tokens
    for number, (tokens, tags) in enumerate(_sentences(path, format, token_column, tag_column)):
        positions = [i for i, token in enumerate(tokens) if wanted is None or token in wanted]
        if positions[:left]:
            found.append(TokenOccurrences(number, tokens, positions[:left], tags))
        left -= len(positions)
        if left < 0:
            logging.warning(
                "Only the first %s tokens are exported (max_tokens, --max-tokens).",
                f"{max_tokens:,}",
            )
            break
    if not found:
        missing = "no token" if wanted is None else f"none of {', '.join(sorted(wanted))}"
        raise ValueError(f"{os.fspath(path)} has {missing}.")
    invalid = sum(not is_utf_8(" ".join(occurrence.tokens)) for occurrence in found)
    if invalid:
        kind = (invalid, "with invalid UTF-8 (read byte for byte; another encoding?)")
        logging.warning("%s", data_warnings(kind))
    return found


def _sentences(
    path: str | os.PathLike, format: str | None, token_column: int | None, tag_column: int | None
) -> Iterator[tuple[list[str], list[str] | None]]:
    if tag_column is not None:
        if (format or format_of(path)) == "text":
            raise ValueError(
                f"Tags (tag_column, --tag-column) need CoNLL columns, but {os.fspath(path)} is "
                "text by its name. If it has columns, set its format (format, --input-format)."
            )
        yield from read_tagged(path, format, token_column, tag_column)
    else:
        for sentence in sentence_reader(path, format, token_column)():
            yield sentence.tokens, None


def check_projector(logdir: str | os.PathLike, overwrite: bool = False) -> None:
    """Checks that `export_projector` can write to a directory.

    Raises:
        MissingExtraError: TensorBoard is not installed.
        FileExistsError: the directory is not empty and `overwrite` is false, or it holds files that
            an export does not write.
        ValueError: TensorFlow would take the path for a pattern.
    """
    require_extra("tensorboard", "tensorboard", "The projector")
    refuse_pattern(logdir)
    refuse_directory(logdir, overwrite, _FILES)


def export_projector(
    embedder: Embedder,
    occurrences: Sequence[TokenOccurrences],
    logdir: str | os.PathLike,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes a directory for `tensorboard --logdir`.

    The metadata of a token are `token`, `context` (up to 10 tokens on each side), `sentence` and
    `position` (both from 0), and `tag` if there are tags.

    Args:
        embedder: an `Embedder`; with `layers="all"` each layer is a tensor.
        occurrences: from `read_occurrences`, at least one.
        logdir: the directory, which appears when it is complete.
        overwrite: whether to replace an earlier export.

    Returns:
        "tensors" (their names), "tokens" (their number) and "dim" (the width of a vector).

    Raises:
        MissingExtraError, FileExistsError, ValueError: see `check_projector`.
    """
    check_projector(logdir, overwrite)
    names = [embedder.layers]
    if embedder.layers == "all":
        names = [f"layer_{layer}" for layer in range(embedder.num_layers)]
    num_tokens = sum(len(occurrence.positions) for occurrence in occurrences)
    with atomic_directory(logdir, overwrite, _FILES) as part:
        _write_metadata(part / METADATA_FILE, occurrences)
        _write_tensors(embedder, occurrences, [part / f"{name}.bytes" for name in names])
        _write_config(part, names, (num_tokens, embedder.dim))
    return {"tensors": names, "tokens": num_tokens, "dim": embedder.dim}


def _write_metadata(path: Path, occurrences: Sequence[TokenOccurrences]) -> None:
    is_tagged = occurrences[0].tags is not None
    columns = ["token", "context", "sentence", "position"] + ["tag"] * is_tagged
    # TensorBoard splits at "\n" only: "\r\n" would become part of the last column.
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        print(*columns, sep="\t", file=file)
        for number, tokens, positions, tags in occurrences:
            for place in positions:
                tag = [tags[place]] if tags is not None else []
                row = [
                    tokens[place],
                    in_context(tokens, place, _CONTEXT, "[{}]"),
                    str(number),
                    str(place),
                    *tag,
                ]
                print(*map(visible, row), sep="\t", file=file)


def _write_tensors(
    embedder: Embedder, occurrences: Sequence[TokenOccurrences], paths: Sequence[Path]
) -> None:
    """Writes one file of rows per tensor; only a few batches are in memory."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, "wb")) for path in paths]
        meter = stack.enter_context(progress(len(occurrences), "embedding", "sentences"))
        sentences = embedder.embed(occurrence.tokens for occurrence in occurrences)
        for vectors, occurrence in zip(sentences, occurrences, strict=True):
            chosen = vectors[..., occurrence.positions, :].astype("<f4")
            layers = chosen.reshape(len(files), len(occurrence.positions), embedder.dim)
            for file, layer in zip(files, layers, strict=True):
                content = layer.tobytes()
                if file.tell() == 0:
                    # TensorBoard reads a tensor as tab-separated text if it is valid UTF-8. The
                    # byte 255 makes it invalid. As the lowest byte of the first number, it changes
                    # that number by less than 1/30,000.
                    content = b"\xff" + content[1:]
                file.write(content)
            meter.update(1)


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
