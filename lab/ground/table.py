"""Tables: frozen dataclasses whose fields are columns with one entry a row."""

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
    """Return a field of a ``Table`` that is of all rows together and not picked from."""
    return field(metadata={"whole": True}, **options)


@dataclass(frozen=True)
class Table:
    """A subclass names the columns: arrays, tuples, or tables themselves."""

    def __len__(self) -> int:
        return len(getattr(self, _columns(self)[0].name))

    def __getitem__(self, rows: Flags | Places) -> Self:
        """These rows, by a mask or by place."""
        asked: NDArray[Any] = np.asarray(rows)
        places = np.flatnonzero(asked) if asked.dtype == np.bool_ else asked.astype(np.int64)
        picked = {one.name: _pick(getattr(self, one.name), places) for one in _columns(self)}
        kept = {one.name: getattr(self, one.name) for one in fields(self) if _is_whole(one)}
        return type(self)(**picked, **kept)

    def groups(self, *columns: str) -> Strings:
        """Return [rows] one name for each combination of these columns: ``a100/fp16``."""
        parts = [np.asarray(getattr(self, name)).tolist() for name in columns]
        return np.array(["/".join(map(str, key)) for key in zip(*parts, strict=True)])


T = TypeVar("T", bound=Table)


def stacked(tables: Sequence[T]) -> T:
    """Return the rows of all, one after the other; fields of all rows are the first table's."""
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
