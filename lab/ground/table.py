"""Tables: frozen dataclasses whose fields are columns with one entry per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Strings: TypeAlias = NDArray[np.str_]
Flags: TypeAlias = NDArray[np.bool_]
Places: TypeAlias = NDArray[np.int64]


def whole(**options: Any) -> Any:
    """Return a dataclass field of a ``Table`` that holds one value for the whole table.

    Such a field is kept as it is when rows are selected.
    """
    return field(metadata={"whole": True}, **options)


@dataclass(frozen=True)
class Table:
    """Base class of tables. The fields of a subclass are its columns: arrays, tuples or tables."""

    def __len__(self) -> int:
        return len(getattr(self, _columns(self)[0].name))

    def __getitem__(self, rows: Flags | Places) -> Self:
        """Return a table of the selected rows: a boolean mask or an array of row numbers."""
        asked: NDArray[Any] = np.asarray(rows)
        places = np.flatnonzero(asked) if asked.dtype == np.bool_ else asked.astype(np.int64)
        picked = {one.name: _pick(getattr(self, one.name), places) for one in _columns(self)}
        kept = {one.name: getattr(self, one.name) for one in fields(self) if _is_whole(one)}
        return type(self)(**picked, **kept)

    def groups(self, *columns: str) -> Strings:
        """Return a name per row that joins its values in these columns, such as ``a100/fp16``."""
        parts = [np.asarray(getattr(self, name)).tolist() for name in columns]
        return np.array(["/".join(map(str, key)) for key in zip(*parts, strict=True)])


T = TypeVar("T", bound=Table)


def stacked(tables: Sequence[T]) -> T:
    """Return one table with the rows of all ``tables``; ``whole`` fields are the first table's."""
    first = tables[0]
    joined = {
        one.name: _join([getattr(table, one.name) for table in tables]) for one in _columns(first)
    }
    return type(first)(
        **joined, **{one.name: getattr(first, one.name) for one in fields(first) if _is_whole(one)}
    )


def _join(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], tuple):
        return tuple(value for column in columns for value in column)
    return np.concatenate(columns)


def _is_whole(one: Field[Any]) -> bool:
    return bool(one.metadata.get("whole"))


def _columns(table: Table) -> list[Field[Any]]:
    return [one for one in fields(table) if not _is_whole(one)]


def _pick(column: Any, places: Places) -> Any:
    if isinstance(column, tuple):
        return tuple(column[place] for place in places.tolist())
    return column[places]
