"""FASTA ─► protein sequences. Does not import TensorFlow."""

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from elmo_tf.logs import warn_once

_SUFFIXES = (".fa", ".fasta", ".faa")
RARE = "BOUZ"  # residues that are read as X, as by SeqVec (Heinzinger et al. 2019)


class FastaRecord(NamedTuple):
    """A sequence."""

    identifier: str  # the first word of the header, perhaps empty
    residues: str  # letters from A to Z except `RARE`
    line: int  # of the header, from 1


def is_fasta(path: str | os.PathLike) -> bool:
    """Whether a file, perhaps compressed, has the name of a FASTA file of proteins."""
    return os.fspath(path).lower().removesuffix(".gz").endswith(_SUFFIXES)


def fasta_records(lines: Iterable[str], name: str) -> Iterator[FastaRecord]:
    """Yields the records of FASTA, of the file `name`; only one is in memory.

    Letters become upper case, the residues U, Z, O and B become X (with one warning per file), and
    a `*` at the end is removed.

    Raises:
        ValueError: a record is empty or has a character that is not a letter, such as a gap; or
            there is text before the first `>`.
    """
    header, line_of_header, parts, num_rare = None, 0, [], 0
    for number, line in enumerate(itertools.chain(lines, ">"), start=1):
        if not line.startswith(">"):
            parts += line.split()
            if parts and header is None:
                raise ValueError(
                    f"{name}, line {number}: FASTA must begin with a header, '>' and an identifier."
                    f" Received: {line.strip()[:60]!r}. If it is ordinary text, rename the file."
                )
            continue
        if header is not None:
            identifier = "".join(header.split()[:1])
            place = f"{name}, record {identifier!r} (line {line_of_header})"
            residues = _checked("".join(parts), place)
            num_rare += sum(map(residues.count, RARE))
            residues = re.sub(f"[{RARE}]", "X", residues)
            yield FastaRecord(identifier, residues, line_of_header)
        header, line_of_header, parts = line[1:], number, []
    if num_rare:
        message = "%s: residues U, Z, O or B, which are read as X: %s."
        warn_once(f"rare residues of {name}", message, name, f"{num_rare:,}")


def _checked(sequence: str, place: str) -> str:
    residues = sequence.removesuffix("*")
    if not residues:
        raise ValueError(f"{place}: the sequence is empty. Remove the record.")
    if wrong := re.search("[^A-Za-z]", residues):
        kind = "a gap" if wrong[0] in "-." else "not a residue"
        raise ValueError(
            f"{place}, position {wrong.start() + 1}: {wrong[0]!r} is {kind}. A sequence must "
            "consist of letters, without gaps; a '*' may stand at its end."
        )
    return residues.upper()
