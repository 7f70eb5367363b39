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

SHORT = 24
"""Cells of up to so many characters stay in one line: dates and names do not break."""
MISSING = "-"
"""What a person reads where a value is not known."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """What a table shows of each record in one column."""

    title: str
    """For people: on the screen (there in capitals), on the page, in CSV; empty: in JSON alone."""
    key: str
    """In JSON; empty: not there, for other keys say it."""
    value: Callable[[R], Any]
    """The value, of a type that JSON has, with its unit in ``key``; None: not known."""
    text: Callable[[Any], str] = str
    """How a person reads a value that is known."""

    def cell(self, record: R) -> str:
        """Return what a person reads of this record."""
        value = self.value(record)
        return MISSING if value is None or value == "" else self.text(value)


def table_of(
    caption: str,
    columns: Sequence[Column[R]],
    records: Sequence[R],
    *,
    links: Sequence[str | None] = (),
) -> Table:
    """Return the table of these records as people read it."""
    shown = [column for column in columns if column.title]
    rows = [[column.cell(record) for column in shown] for record in records]
    return Table(caption, [column.title for column in shown], rows, links=links)


def data_of(columns: Sequence[Column[R]], record: R) -> dict[str, Any]:
    """Return what JSON has of a record: the value of each column that has a key."""
    return {column.key: column.value(record) for column in columns if column.key}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a header."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    doubtful: Sequence[bool] = ()
    """By row: shown apart, as nothing to act on."""
    links: Sequence[str | None] = ()
    """By row: where its first cell leads, on the page."""

    def is_doubtful(self, index: int) -> bool:
        """Whether row ``index`` is only a guess."""
        return index < len(self.doubtful) and self.doubtful[index]

    @staticmethod
    def in_line(cell: str) -> bool:
        """Whether a cell stays in one line however narrow the screen is."""
        return len(cell) <= SHORT

    def link(self, index: int) -> str | None:
        """Where the first cell of row ``index`` leads."""
        return self.links[index] if index < len(self.links) else None


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing, and what it shows in words for who cannot see it."""

    svg: str
    words: str

    @property
    def address(self) -> str:
        """As an ``img`` takes it: an SVG in an image runs no script and loads nothing."""
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
    tables: Sequence[Table] = ()
    verbatim: str = ""
    """Lines whose spaces matter: a command, a difference of files."""
    problem: BerthError | None = None
    """Why the rest of it is not there."""
    facts: Sequence[tuple[str, str]] = ()
    """Names, and what each is."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that is shown of one thing."""

    title: str
    lead: str
    """The first sentence: what a reader takes away."""
    parts: Sequence[Part]


def part(title: str, read: Callable[[], Part]) -> Part:
    """What ``read`` makes, under ``title``; where it cannot, that with the reason: others go on."""
    try:
        return replace(read(), title=title)
    except BerthError as error:
        return Part(title, problem=error)


def drawn(words: str, draw: Callable[[], str]) -> tuple[Picture, ...]:
    """The picture that ``draw`` makes as SVG; none without matplotlib: the tables say it all."""
    try:
        return (Picture(draw(), words),)
    except ToolMissing:
        return ()
