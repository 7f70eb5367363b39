"""Sections (``Part``) of reports and web views, and the columns of their tables.

A Column defines once how a table shows a field of its records: on a terminal, a web page, in CSV
and in JSON. Parts are made from records; the writers (``terminal``, ``html``, ``csv_tables``,
``json_data``) print them and escape all text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Generic, TypeVar

from berth.pilot.errors import BerthError, ToolMissing
from berth.pilot.units import MOST_SHOWN_FACTOR, format_bytes, format_seconds

SHORT = 24
"""Cells up to this many characters are not broken into several lines, such as dates and names."""
THREE = ("low", "mid", "high")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """How a table shows one field of its records."""

    title: str
    """The title that people read: on a terminal (in capitals) and on a web page."""
    key: str
    """The name in JSON and CSV; the name of a value with a unit ends in that unit."""
    value: Callable[[R], Any]
    """Returns the record's value in a type that JSON has; None: unknown."""
    text: Callable[[Any], str] = str
    """Returns the text of a known value, for people."""
    unit: str = ""
    """Unit of the value."""
    missing: str = "-"
    """Text that is shown where the value is unknown."""
    ends: tuple[str, ...] = ()
    """Names of the numbers of an interval value: each becomes a column in CSV."""
    words: Callable[[R], str | None] | None = None
    """Returns the record's text for people, where it needs more than the value."""
    is_optional: bool = False
    """Whether the column is left out where no record has a value."""
    is_wide: bool = False
    """Whether the terminal leaves the column out."""
    for_people: bool = True
    """Whether people see the column; False: it stands only in JSON and CSV."""
    in_brief: bool = False
    """Whether the column stays where a terminal is too narrow for all."""
    kind: Any = None
    """Type of a known value in JSON, such as ``float`` or ``list[str]``; None: an Interval where
    the value has three ends, a list where it has two, a number where it has a unit, else a text."""

    @property
    def json_type(self) -> Any:
        """Return the type of the column's values in JSON; null stands for an unknown value."""
        from berth.predictor.core.prediction import Interval  # noqa: PLC0415 - slow

        ends = Interval if self.ends == THREE else list[float]
        return self.kind or (ends if self.ends else float if self.unit else str)

    def cell(self, record: R) -> str:
        """Return the text of a record for people."""
        if self.words is not None:
            return self.words(record) or self.missing
        value = self.value(record)
        return self.missing if value is None or value == "" else self.text(value)


def ends_of(interval: Any) -> Sequence[float]:
    """Return low, middle and high of an Interval; a sequence of numbers is returned unchanged."""
    is_one = hasattr(interval, "mid")
    return (interval.low, interval.mid, interval.high) if is_one else interval


def seconds(title: str, key: str, value: Callable[[R], Any]) -> Column[R]:
    """Make a column of times in seconds."""
    return Column(title, key, value, format_seconds, "s")


def interval(
    title: str,
    key: str,
    value: Callable[[R], Any],
    write: Callable[[float], str] = format_seconds,
    *,
    unit: str = "s",
    kind: Any = None,
    is_optional: bool = False,
) -> Column[R]:
    """Make a column of intervals, ``60 s (50 s to 72 s)``; ``write`` formats one number. Wider than
    a factor of ``MOST_SHOWN_FACTOR``: ``not known``."""

    def text(known: Any) -> str:
        ends = ends_of(known)
        if any(b > MOST_SHOWN_FACTOR * a > 0 for a, b in pairwise(ends)):
            return "not known"
        low, mid, high = map(write, ends)
        return f"{mid} ({low} to {high})"

    return Column(title, key, value, text, unit, ends=THREE, kind=kind, is_optional=is_optional)


def middle(
    title: str,
    key: str,
    value: Callable[[R], Any],
    write: Callable[[float], str] = format_seconds,
    *,
    unit: str = "s",
) -> Column[R]:
    """Make a column of intervals of which the text shows only the middle; CSV and JSON have all
    three numbers."""
    return Column(title, key, value, lambda known: write(ends_of(known)[1]), unit, ends=THREE)


def at_most(title: str, key: str, value: Callable[[R], Any], *, kind: Any = None) -> Column[R]:
    """Make a column of intervals in bytes of which the text shows only the upper end; CSV and JSON
    have all three numbers."""

    def text(known: Any) -> str:
        return format_bytes(ends_of(known)[2])

    return Column(title, key, value, text, "bytes", ends=THREE, kind=kind)


def plain(value: Any) -> Any:
    """Return a column's value for JSON: an Interval becomes low, mid and high."""
    if hasattr(value, "mid"):
        return {"low": value.low, "mid": value.mid, "high": value.high}
    return value


def _sort_key(value: Any) -> str:
    if hasattr(value, "mid") or (isinstance(value, list | tuple) and len(value) == len(THREE)):
        value = ends_of(value)[1]
    return str(value) if isinstance(value, int | float) else ""


def worth_showing(columns: Sequence[Column[R]], records: Sequence[R]) -> tuple[Column[R], ...]:
    """Return the columns without the optional ones that have no value in any record."""
    return tuple(
        column
        for column in columns
        if not column.is_optional or any(column.value(record) is not None for record in records)
    )


def data_of(columns: Sequence[Column[R]], record: R) -> dict[str, Any]:
    """Return a record's values for JSON, by the columns' keys."""
    return {column.key: plain(column.value(record)) for column in columns}


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """A table with a line for each record and a column for each field."""

    caption: str
    columns: Sequence[Column[R]]
    records: Sequence[R]
    doubtful: Sequence[bool] = ()
    """For each record, whether its line is shown apart because its prediction is too uncertain to
    act on."""
    links: Sequence[str | None] = ()
    """For each record, the address that its first cell links to on a web page."""
    most: int | None = None
    """Maximum number of lines on a terminal; None: all. Web page, CSV and JSON have all lines."""
    if_empty: str | None = None
    """Sentence shown to people in place of a table without records; CSV has the header alone. None:
    the writer's own."""

    @property
    def header(self) -> list[str]:
        """Return the columns' titles for people."""
        return [column.title for column in self._shown]

    @property
    def rows(self) -> list[list[str]]:
        """Return the cells' texts for people, a list for each record."""
        return [[column.cell(record) for column in self._shown] for record in self.records]

    @property
    def sort_keys(self) -> list[list[str]]:
        """Return, for each record, what its cells are sorted by on a web page: the number of a
        value that is one (the middle of an interval), else an empty text."""
        shown = self._shown
        return [[_sort_key(column.value(record)) for column in shown] for record in self.records]

    @property
    def _shown(self) -> list[Column[R]]:
        return [column for column in self.columns if column.for_people]

    def data(self) -> list[dict[str, Any]]:
        """Return the values for programs, a mapping for each record."""
        return [data_of(self.columns, record) for record in self.records]

    def is_doubtful(self, index: int) -> bool:
        """Return whether the prediction of the record at ``index`` is too uncertain to act on."""
        return index < len(self.doubtful) and self.doubtful[index]

    @staticmethod
    def in_line(cell: str) -> bool:
        """Return whether a cell is kept on one line however narrow the screen is."""
        return len(cell) <= SHORT

    def link(self, index: int) -> str | None:
        """Return the address that the first cell of the record at ``index`` links to."""
        return self.links[index] if index < len(self.links) else None


TextTable = Table[Sequence[str]]


def text_table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    doubtful: Sequence[bool] = (),
    links: Sequence[str | None] = (),
) -> TextTable:
    """Make a table from rows of text; the titles of its columns are also their keys."""

    def cell(index: int) -> Callable[[Sequence[str]], str]:
        return lambda row: row[index]

    columns = [Column(title, title, cell(index)) for index, title in enumerate(header)]
    return Table(caption, columns, rows, doubtful, links)


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing, with a description in words for readers who cannot see it."""

    svg: str
    words: str

    @property
    def address(self) -> str:
        """Return the drawing as a data address for ``img``, where an SVG cannot run scripts or load
        files."""
        svg = self.svg
        if "xmlns=" not in svg[:400]:
            svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a report: a heading with the content below it."""

    title: str
    lines: Sequence[str] = ()
    """Sentences above the tables."""
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table[Any]] = ()
    verbatim: str = ""
    """Text whose spaces matter, such as a command or a diff."""
    problem: BerthError | None = None
    """The error because of which the section's content is missing."""
    facts: Sequence[tuple[str, str]] = ()
    """Pairs of a name and its value."""
    notes: Sequence[str] = ()
    """Sentences below the tables."""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report: title, summary and sections."""

    title: str
    lead: str
    """The first sentence, which summarises the report."""
    parts: Sequence[Part]


def sentence(text: str) -> str:
    """Return a clause as a sentence: with a full stop, and a capital letter unless it begins with
    the name of a file, a platform or a source."""
    first = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]
    return f"{first}{text[1:]}{'' if text[-1:] in '.:!?' else '.'}"


def part(title: str, read: Callable[[], Part]) -> Part:
    """Return the section that ``read`` makes, under ``title``; where ``read`` raises BerthError, a
    section with the error."""
    try:
        return replace(read(), title=title)
    except BerthError as error:
        return Part(title, problem=error)


def drawn(words: str, draw: Callable[[], str]) -> tuple[Picture, ...]:
    """Return the picture that ``draw`` makes as SVG; an empty tuple without matplotlib, as the
    tables have all data."""
    try:
        return (Picture(draw(), words),)
    except ToolMissing:
        return ()
