"""Recognise files that other tools wrote, and say which command reads them or what to run instead.

``foreign_files.toml`` has the kinds of files with their marks; :func:`expect` is what commands call
before they read a file.
"""

from __future__ import annotations

import csv
import functools
import gzip
import re
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError

HEAD_BYTES = 1 << 16
"""Number of bytes at either end of a file that are searched for marks."""
_GZIP = b"\x1f\x8b"
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_COMMENT = re.compile(r"\s*(#|$)")
INSTEAD = {
    "sacct": "sacct -a -P --noconvert -S 2026-10-01 -o JobID,User,Account,Partition,State,Submit,"
    "Start,End,ElapsedRaw,TimelimitRaw,AllocCPUS,NNodes,NTasks,ReqMem,MaxRSS,AllocTRES,NodeList,"
    "TotalCPU,JobName > jobs.txt",
    "perf": "LC_ALL=C perf stat -x, -o app.csv -e EVENTS,duration_time -- ./app",
    "nsys": "nsys stats --report cuda_gpu_kern_sum --format csv app.nsys-rep > app.csv",
    "rocprof": "rocprofv3 --kernel-trace --output-format csv -- ./app, then app_kernel_trace.csv",
    "table": "make a table of its jobs (CSV) with the columns submit_s, user, cores, gpus and "
    "seconds@PLATFORM: berth replay FILE (docs/tune.md)",
}
"""Commands that several kinds of files name, by the word in braces that stands for them."""


class Purpose(StrEnum):
    """What a command reads a file for."""

    PAST_JOBS = "past jobs"
    TRACE = "trace"
    PROFILE = "profile"
    WORKLOAD = "workload"
    USAGE = "usage"


_NOUNS = {
    Purpose.PAST_JOBS: "no file of past jobs that Berth keeps",
    Purpose.TRACE: "no trace of jobs",
    Purpose.PROFILE: "no measurement of a program that Berth reads",
    Purpose.WORKLOAD: "no workload",
    Purpose.USAGE: "no record of what jobs used",
}
_COMMANDS = {
    Purpose.PAST_JOBS: "berth jobs history import FILE, or berth replay FILE, reads it",
    Purpose.TRACE: "berth replay FILE reads it",
    Purpose.PROFILE: "berth pilot import FILE --platform NAME makes profiles of it",
    Purpose.WORKLOAD: "berth predict FILE, or berth workload add FILE, reads it",
    Purpose.USAGE: "berth jobs usage import FILE reads it",
}


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file: its marks, who reads it, and what to run where nothing reads it."""

    name: str
    family: str
    read_by: frozenset[Purpose] = frozenset()
    reader: str = ""
    """The reader among those of the purpose; empty: the purpose has only one."""
    instead: str = ""
    starts: tuple[str, ...] = ()
    first: re.Pattern[str] | None = None
    line: re.Pattern[str] | None = None
    separator: str = ""
    columns: frozenset[str] = frozenset()
    json: tuple[re.Pattern[str], ...] = ()
    has: tuple[re.Pattern[str], ...] = ()
    ends: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """Return what to do with a file of this kind: a command that reads it, or the command that
        makes another form of it."""
        commands = (_COMMANDS[purpose] for purpose in Purpose if purpose in self.read_by)
        return self.instead or next(commands, "")


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


@functools.cache
def kinds() -> tuple[FileKind, ...]:
    """Return all kinds of files, in the order in which they are tried."""
    text = Path(__file__).with_name("foreign_files.toml").read_text(encoding="utf-8")
    return tuple(_kind(entry) for entry in tomllib.loads(text)["kind"])


def _kind(entry: dict[str, Any]) -> FileKind:
    table = entry.get("columns", {})
    instead = re.sub(r"\{(\w+)\}", _instead, entry.get("instead", ""))
    return FileKind(
        name=entry["name"],
        family=entry["family"],
        read_by=frozenset(map(Purpose, entry.get("read_by", ()))),
        reader=entry.get("reader", ""),
        instead=instead,
        starts=tuple(entry.get("starts", ())),
        first=re.compile(entry["first"]) if "first" in entry else None,
        line=re.compile(f"^(?:{entry['line']})", re.MULTILINE) if "line" in entry else None,
        separator=table.get("separator", ""),
        columns=frozenset(table.get("names", ())),
        json=tuple(map(re.compile, entry.get("json", ()))),
        has=tuple(map(re.compile, entry.get("has", ()))),
        ends=tuple(entry.get("ends", ())),
        holds=tuple(entry.get("holds", ())),
    )


def _instead(match: re.Match[str]) -> str:
    return INSTEAD.get(match[1], match[0])


def recognised(path: Path) -> Iterator[FileKind]:
    """Yield the kinds that a file or folder may be of, the likeliest first.

    Yields nothing for a file that is empty, unknown or cannot be read.
    """
    if path.is_dir():
        for kind in kinds():
            if any(next(path.glob(pattern), None) is not None for pattern in kind.holds):
                yield kind
        return
    yield from in_text(_ends_of(path), path.name)


def in_text(text: Text | str, name: str = "") -> Iterator[FileKind]:
    """Yield the kinds that a file's text, or its name, may be of; the likeliest first."""
    parts = Text(text, text) if isinstance(text, str) else text
    parts = Text(_dense(parts.all), _dense(parts.head))
    marked = [kind for kind in kinds() if _matches(kind, parts)]
    sure: list[FileKind] = []
    if not any(kind.read_by for kind in marked):  # the first bytes and the name prove most
        sure = [
            kind
            for kind in kinds()
            if (kind.ends and name.endswith(kind.ends)) or (kind.starts and kind in marked)
        ]
    yield from dict.fromkeys([*sure, *marked])


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
    if kind.first is not None:
        marks.append(kind.first.match(text.first(comments=True)) is not None)
    if kind.line is not None:
        marks.append(kind.line.search(searched) is not None)
    if kind.columns:
        marks.append(kind.columns <= _columns(text.first(comments=False), kind.separator))
    if kind.json:
        marks.append(text.is_json and all(mark.search(text.head) for mark in kind.json))
    if kind.has:
        marks.append(all(mark.search(text.head) for mark in kind.has))
    return bool(marks) and all(marks)


def _columns(line: str, separator: str) -> frozenset[str]:
    try:
        cells = next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return frozenset()
    return frozenset(cell.strip() for cell in cells)


def expect(path: Path, *purposes: Purpose) -> FileKind | None:
    """Return the kind of a file or folder that is read for one of the purposes; None: the file is
    of no known kind, is empty or cannot be read.

    Raises DocumentError for a file of another kind, and for one that is two kinds at once: it says
    what the file is and what to do.
    """
    return expected(list(recognised(path)), path, *purposes)


def expected(found: list[FileKind], source: Path | str, *purposes: Purpose) -> FileKind | None:
    """Return which of the kinds of a file is read for one of the purposes; see :func:`expect`."""
    if not found:
        return None
    kind = found[0]
    other = next(
        (each for each in found if each.family != kind.family and each.line and each.read_by), None
    )
    if other is not None and kind.line and kind.read_by:
        raise DocumentError(
            source,
            f"is two kinds of file at once: {kind.name}, and {other.name}",
            hint="write each into a file of its own",
        )
    if kind.read_by.isdisjoint(purposes):
        hint = kind.advice.replace("FILE", str(source)) if kind.read_by else kind.advice
        raise DocumentError(source, f"is {kind.name}: {_NOUNS[purposes[0]]}", hint=hint)
    return kind


def _ends_of(path: Path) -> Text:
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
