"""``--columns``: printed tables show only the columns that the user names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from berth.pilot.errors import UsageError
from berth.plugin.report.parts import Table


@dataclass
class _ChosenColumns:
    """The names that the user gave, and the columns of the tables printed since."""

    names: Sequence[str]
    known: dict[str, None] = field(default_factory=dict)


_choice: _ChosenColumns | None = None


@contextmanager
def only_columns(names: Sequence[str]) -> Iterator[None]:
    """Within the block, tables are printed with the columns of these keys, in this order.

    A table with none of them is printed whole. Raises UsageError at the end of the block for a name
    that no printed table has.
    """
    global _choice  # noqa: PLW0603 - what commands print is the process's own
    _choice = choice = _ChosenColumns(names)
    try:
        yield
    finally:
        _choice = None
    unknown = [name for name in names if name not in choice.known]
    if unknown:
        known = ", ".join(choice.known)
        raise UsageError(
            f"--columns: no printed table has a column {unknown[0]!r}",
            hint=f"there are: {known}" if known else "no table was printed",
        )


def are_chosen(keys: Iterable[str]) -> bool:
    """Return whether the user chose a column with one of these keys."""
    return _choice is not None and not set(_choice.names).isdisjoint(keys)


def with_chosen_columns(table: Table[Any]) -> Table[Any]:
    """Return the table with the columns that the user chose, if it has one of them."""
    if _choice is None:
        return table
    by_key = {column.key: column for column in table.columns}
    _choice.known.update(dict.fromkeys(by_key))
    chosen = [
        replace(by_key[name], for_people=True, is_wide=False, in_brief=True)
        for name in _choice.names
        if name in by_key
    ]
    return replace(table, columns=chosen) if chosen else table
