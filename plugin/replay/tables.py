"""Tables that a user writes: CSV with a header, unpacked where gzip packed it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from berth.pilot.errors import DocumentError
from berth.plugin.history.files import lines_of


class Row(NamedTuple):
    """One line, with its number in the file."""

    number: int
    cells: tuple[str, ...]


def read_table(file: Path, lines: Sequence[str] | None = None) -> tuple[tuple[str, ...], list[Row]]:
    """``(header, rows)``, without empty lines. Raises DocumentError naming the line.

    ``lines``: of the file, where they have been read.
    """
    reader = csv.reader(lines_of(file) if lines is None else lines)
    try:
        found = [(reader.line_num, tuple(cell.strip() for cell in row)) for row in reader]
    except csv.Error as error:
        raise DocumentError(
            file, f"cannot be read: {error}", key=f"line {reader.line_num}"
        ) from None
    full = [Row(*one) for one in found if any(one[1])]
    header = tuple(name.removeprefix("\ufeff") for name in full[0].cells) if full else ()
    for row in full[1:]:
        if len(row.cells) != len(header):
            raise DocumentError(
                file,
                f"has {len(row.cells)} columns, the first line {len(header)}",
                key=f"line {row.number}",
            )
    return header, full[1:]
