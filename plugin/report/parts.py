"""The parts that reports and views are made of, and the columns that tables are made of.

A Column says once what a table shows of a record: on the screen, on the page, in CSV and in JSON.
A part is made once from records; the writers (``terminal``, ``html``, ``csv_tables``,
``json_data``) write it. All text is escaped where it is written.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from berth.pilot.errors import BerthError, ToolMissing
from berth.pilot.units import format_bytes, format_seconds

SHORT = 24
"""Cells of up to so many characters stay in one line: dates and names do not break."""
THREE = ("low", "mid", "high")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """What a table shows of each record in one column."""

    title: str
    """For people: on the screen (there in capitals) and on the page."""
    key: str
    """For programs: in JSON and CSV; of a value with a unit it ends in that."""
    value: Callable[[R], Any]
    """Return what programs read of a record, of a type that JSON has; None: not known."""
    text: Callable[[Any], str] = str
    """Write a value that is known, for people."""
    unit: str = ""
    """Unit of the value."""
    missing: str = "-"
    """What people read where the value is not known."""
    ends: tuple[str, ...] = ()
    """Of a value that is an interval, what its numbers are: a column each in CSV."""
    words: Callable[[R], str | None] | None = None
    """Write a record for people, where more than the value is to be said."""
    is_optional: bool = False
    """Whether the column is left out where no record has a value."""
    is_wide: bool = False
    """Whether a terminal, where space is scarce, leaves the column out."""
    in_short: bool = False
    """Whether the column stays where few are shown (``--short``)."""

    def cell(self, record: R) -> str:
        """Return what people read of a record."""
        if self.words is not None:
            return self.words(record) or self.missing
        value = self.value(record)
        return self.missing if value is None or value == "" else self.text(value)


def ends_of(interval: Any) -> Sequence[float]:
    """Return low, middle and high of an Interval; a sequence of numbers as it is."""
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
) -> Column[R]:
    """Make a column of intervals, ``60 s (50 s to 72 s)``; ``write``: an end, for people."""

    def text(known: Any) -> str:
        low, mid, high = map(write, ends_of(known))
        return f"{mid} ({low} to {high})"

    return Column(title, key, value, text, unit, ends=THREE)


def middle(
    title: str,
    key: str,
    value: Callable[[R], Any],
    write: Callable[[float], str] = format_seconds,
    *,
    unit: str = "s",
) -> Column[R]:
    """Make a column of intervals of which people read the middle."""
    return Column(title, key, value, lambda known: write(ends_of(known)[1]), unit, ends=THREE)


def at_most(title: str, key: str, value: Callable[[R], Any]) -> Column[R]:
    """Make a column of intervals in bytes, of which people read the upper end."""

    def text(known: Any) -> str:
        return format_bytes(ends_of(known)[2])

    return Column(title, key, value, text, "bytes", ends=THREE)


def plain(value: Any) -> Any:
    """Return a column's value as JSON has it: an Interval as low, mid and high."""
    if hasattr(value, "mid"):
        return {"low": value.low, "mid": value.mid, "high": value.high}
    return value


def worth_showing(columns: Sequence[Column[R]], records: Sequence[R]) -> tuple[Column[R], ...]:
    """Return the columns without the optional ones of which no record has a value."""
    return tuple(
        column
        for column in columns
        if not column.is_optional or any(column.value(record) is not None for record in records)
    )


def data_of(columns: Sequence[Column[R]], record: R) -> dict[str, Any]:
    """Return what JSON has of a record: the value of each column."""
    return {column.key: plain(column.value(record)) for column in columns}


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """A line for each record, and a column for each thing that is shown of it."""

    caption: str
    columns: Sequence[Column[R]]
    records: Sequence[R]
    doubtful: Sequence[bool] = ()
    """By record: shown apart, as nothing to act on."""
    links: Sequence[str | None] = ()
    """By record: where its first cell leads, on the page."""
    most: int | None = None
    """Lines that a terminal shows; None: all. Page, CSV and JSON have all."""

    @property
    def header(self) -> list[str]:
        """Return the titles that people read."""
        return [column.title for column in self.columns]

    @property
    def rows(self) -> list[list[str]]:
        """Return the cells that people read, a list for each record."""
        return [[column.cell(record) for column in self.columns] for record in self.records]

    def data(self) -> list[dict[str, Any]]:
        """Return what programs read, a mapping for each record."""
        return [data_of(self.columns, record) for record in self.records]

    def is_doubtful(self, index: int) -> bool:
        """Return whether the record at ``index`` is only a guess."""
        return index < len(self.doubtful) and self.doubtful[index]

    @staticmethod
    def in_line(cell: str) -> bool:
        """Return whether a cell stays in one line however narrow the screen is."""
        return len(cell) <= SHORT

    def link(self, index: int) -> str | None:
        """Return where the first cell of the record at ``index`` leads."""
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
    """Make a table of rows of text; its columns have their titles as keys."""

    def cell(index: int) -> Callable[[Sequence[str]], str]:
        return lambda row: row[index]

    columns = [Column(title, title, cell(index)) for index, title in enumerate(header)]
    return Table(caption, columns, rows, doubtful, links)


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing, and what it shows in words for who cannot see it."""

    svg: str
    words: str

    @property
    def address(self) -> str:
        """Return the drawing for ``img``: an SVG there runs no script and loads nothing."""
        svg = self.svg
        if "xmlns=" not in svg[:400]:
            svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


@dataclass(frozen=True, slots=True)
class Part:
    """One heading with what belongs to it."""

    title: str
    lines: Sequence[str] = ()
    """Sentences."""
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table[Any]] = ()
    verbatim: str = ""
    """Lines whose spaces matter: a command, a difference of files."""
    problem: BerthError | None = None
    """Why the rest of it is not there."""
    facts: Sequence[tuple[str, str]] = ()
    """Names, and what each is."""
    notes: Sequence[str] = ()
    """Sentences about the tables, below them."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that is shown of one thing."""

    title: str
    lead: str
    """The first sentence: what a reader takes away."""
    parts: Sequence[Part]


def part(title: str, read: Callable[[], Part]) -> Part:
    """Return what ``read`` makes, under ``title``; where it raises, the reason: others go on."""
    try:
        return replace(read(), title=title)
    except BerthError as error:
        return Part(title, problem=error)


def drawn(words: str, draw: Callable[[], str]) -> tuple[Picture, ...]:
    """Return the picture that ``draw`` makes as SVG; none without matplotlib: tables say it all."""
    try:
        return (Picture(draw(), words),)
    except ToolMissing:
        return ()
