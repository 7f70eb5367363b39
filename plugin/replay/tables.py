"""Tables that a user writes: CSV with a header, unpacked where gzip packed it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from berth.pilot.errors import DocumentError
from berth.plugin.history.files import lines_of
from berth.plugin.history.reading import Read


class Row(NamedTuple):
    """One line, with its number in the file."""

    number: int
    cells: tuple[str, ...]

    @property
    def text(self) -> str:
        """As a message shows it."""
        return ",".join(self.cells)


def read_table(
    file: Path, lines: Sequence[str] | None = None, read: Read | None = None
) -> tuple[tuple[str, ...], list[Row]]:
    """``(header, rows)``, without empty lines. Raises DocumentError naming the line.

    ``lines``: of the file, where they have been read. ``read``: counts lines with too many or too
    few columns, which are left out then.
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
    rows = []
    for row in full[1:]:
        if len(row.cells) == len(header):
            rows.append(row)
            continue
        why = f"has {len(row.cells)} columns, the first line {len(header)}"
        if read is None:
            raise DocumentError(file, why, key=f"line {row.number}")
        read.refuse(row.number, row.text, why)
    return header, rows
