"""Recognise what wrote a file: by marks in both ends of its text, its name, or what a folder holds.

A :class:`FileReader` reads files of one form, and declares the kinds of files that it reads with
their marks. The registry (``berth.plugin.readers``) also knows the kinds that none reads.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEAD_BYTES = 1 << 16
"""Number of bytes at either end of a file that are searched for marks."""
_GZIP = b"\x1f\x8b"
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_COMMENT = re.compile(r"\s*(#|$)")


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file with its marks, all of which must match; patterns are regular expressions."""

    name: str
    family: str
    """Kinds of one family may be in one file."""
    starts: tuple[str, ...] = ()
    """The text begins with one of these."""
    first: str = ""
    """Matches the first line that is not blank."""
    line: str = ""
    """Matches the beginning of some line."""
    columns: tuple[str, ...] = ()
    """Names in the first line that is not blank and no comment."""
    separator: str = ","
    json: tuple[str, ...] = ()
    """The text begins with { or [, and each of these is found in it."""
    has: tuple[str, ...] = ()
    """Each of these is found in the text."""
    ends: tuple[str, ...] = ()
    """Or: the end of the file's name."""
    holds: tuple[str, ...] = ()
    """Or: files in the folder, as shell patterns."""
    late: bool = False
    """Many tools write such files: it is tried after all others."""
    early: bool = False
    """It looks like a kind that is read, and cannot be read as it: it is tried before them."""
    instead: str = ""
    """The command to run where no reader reads the kind."""


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads files of one form into runs: measurements, past jobs, or what jobs used."""

    name: str
    """The form's name in options such as ``--format``."""
    purpose: str
    """The purpose for which it reads; all readers for one purpose have one type of ``read``."""
    kinds: tuple[FileKind, ...]
    read: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Text:
    """The beginning and the end of a file as text, and the parts of it that marks are about."""

    all: str
    head: str

    @property
    def is_json(self) -> bool:
        """Return whether the text begins as JSON does."""
        return self.head.lstrip().startswith(("{", "["))

    def first(self, *, comments: bool) -> str:
        """Return the first line that is not blank (``comments``: comments count as lines)."""
        lines = (line for line in self.head.splitlines() if line.strip())
        return next((line for line in lines if comments or not _COMMENT.match(line)), "")


def matching(kinds: Iterable[FileKind], text: Text) -> list[FileKind]:
    """Return the kinds of which all marks are in the text."""
    parts = Text(_dense(text.all), _dense(text.head))
    return [kind for kind in kinds if _matches(kind, parts)]


def named(kinds: Iterable[FileKind], name: str) -> list[FileKind]:
    """Return the kinds that a file is of by the end of its name."""
    return [kind for kind in kinds if kind.ends and name.endswith(kind.ends)]


def held(kinds: Iterable[FileKind], folder: Path) -> Iterator[FileKind]:
    """Yield the kinds that a folder is of by the files in it."""
    for kind in kinds:
        if any(next(folder.glob(pattern), None) is not None for pattern in kind.holds):
            yield kind


def _dense(text: str) -> str:
    """Return the text without its blank lines, over which marks would search again and again."""
    return "\n".join(line for line in text.split("\n") if line.strip())


def _matches(kind: FileKind, text: Text) -> bool:
    """Return whether all marks of the kind match; a kind without marks of texts never does."""
    marks: list[bool] = []
    # In JSON, a line of text proves nothing: any tool's counter may begin one.
    searched = text.head.lstrip().partition("\n")[0] if text.is_json else text.all
    if kind.starts:
        marks.append(text.head.startswith(kind.starts))
    if kind.first:
        marks.append(re.match(kind.first, text.first(comments=True)) is not None)
    if kind.line:
        marks.append(re.search(f"^(?:{kind.line})", searched, re.MULTILINE) is not None)
    if kind.columns:
        cells = _cells(text.first(comments=False), kind.separator)
        marks.append(cells.issuperset(kind.columns))
    if kind.json:
        marks.append(text.is_json and all(re.search(mark, text.head) for mark in kind.json))
    if kind.has:
        marks.append(all(re.search(mark, text.head) for mark in kind.has))
    return bool(marks) and all(marks)


def _cells(line: str, separator: str) -> frozenset[str]:
    try:
        cells = next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return frozenset()
    return frozenset(cell.strip() for cell in cells)


def ends_of_file(path: Path) -> Text:
    """Return both ends of a file as text; empty where it is no regular file or cannot be read."""
    if not path.is_file():
        return Text("", "")
    try:
        with path.open("rb") as stream:
            head, tail = stream.read(HEAD_BYTES), b""
            if head.startswith(_GZIP):
                stream.seek(0)
                with gzip.open(stream) as inside, suppress(OSError, EOFError, zlib.error):
                    head = inside.read(HEAD_BYTES)
            elif len(head) == HEAD_BYTES:
                stream.seek(max(HEAD_BYTES, path.stat().st_size - HEAD_BYTES))
                tail = stream.read(HEAD_BYTES)
    except OSError:
        return Text("", "")
    return _text(head, tail)


def ends_of(raw: bytes) -> Text:
    """Return both ends of a file's content as text."""
    return _text(raw[:HEAD_BYTES], raw[HEAD_BYTES:][-HEAD_BYTES:])


def _text(head: bytes, tail: bytes) -> Text:
    text, whole_lines = plain_text(head), tail.partition(b"\n")[2]
    return Text(f"{text}\n{plain_text(whole_lines)}" if whole_lines else text, text)


def plain_text(data: bytes) -> str:
    """Return bytes as text without a byte-order mark and NUL characters: UTF-8 or what the mark
    says, else Latin-1."""
    encoding = next((name for mark, name in _BOMS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace") if encoding != "utf-8" else data.decode("latin-1")
    return text.replace("\0", "")
