"""The registry of readers: every form of file that Berth reads, found by the file's content.

A new source is one file with ``READERS``, and one line in ``plugin/entry_points.ini`` (or in
another package's, group ``berth.readers``), whose name begins with the purpose, so that only the
readers for that purpose are imported. ``unread_files.toml`` has the files that no reader reads,
with what to run instead.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.importers.reading import PROFILE, ImportedFile, ImportedRun, ImportOptions, load
from berth.pilot.importers.recogniser import (
    FileKind,
    FileReader,
    Text,
    ends_of,
    ends_of_file,
    held,
    matching,
    named,
)
from berth.pilot.plugins import Registry

READERS: Registry[tuple[FileReader, ...]] = Registry(
    "berth.readers", kind="reader of files", own=Path(__file__).with_name("entry_points.ini")
)
INSTEAD = {
    "sacct": "sacct -a -P --noconvert -S 2026-10-01 -o JobID,User,Account,Partition,State,Submit,"
    "Start,End,ElapsedRaw,TimelimitRaw,AllocCPUS,NNodes,NTasks,ReqMem,MaxRSS,AllocTRES,NodeList,"
    "TotalCPU,JobName > jobs.txt",
    "perf": "LC_ALL=C perf stat -x, -o app.csv -e EVENTS,duration_time -- ./app",
    "pilot": "berth pilot run -- ./app: Berth reads no profiles of GPU kernels",
    "table": "make a table of its jobs (CSV) with the columns submit_s, user, cores, gpus and "
    "seconds@PLATFORM: berth replay FILE (docs/tune.md)",
}
"""Commands that several kinds of files name, by the word in braces that stands for them."""
_SHOWN = 80


class Purpose(StrEnum):
    """A purpose for which a command reads a file, in the order in which readers are tried."""

    PAST_JOBS = "past-jobs"
    TRACE = "trace"
    USAGE = "usage"
    PROFILE = PROFILE
    WORKLOAD = "workload"


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


def readers(*purposes: str) -> tuple[FileReader, ...]:
    """Return the readers for these purposes, of each purpose Berth's own first."""
    return tuple(
        reader
        for purpose in purposes
        for of_tool in READERS.load_all(f"{purpose}.").values()
        for reader in of_tool
        if reader.purpose == purpose
    )


def reader_named(name: str, *purposes: str) -> FileReader:
    """Return the reader of a form by its name. Raises UsageError for an unknown one."""
    known = {reader.name: reader for reader in readers(*purposes)}
    if name not in known:
        raise UsageError(f"there is no form {name!r}", hint=f"known: {', '.join(known)}")
    return known[name]


@functools.cache
def _reader_of() -> dict[FileKind, FileReader]:
    return {kind: reader for reader in readers(*Purpose) for kind in reader.kinds}


@functools.cache
def kinds() -> tuple[FileKind, ...]:
    """Return all kinds of files, in the order in which they are tried."""
    text = Path(__file__).with_name("unread_files.toml").read_text(encoding="utf-8")
    unread = TypeAdapter(tuple[FileKind, ...]).validate_python(tomllib.loads(text)["kind"])
    return tuple(sorted([*_reader_of(), *unread], key=lambda kind: (not kind.early, kind.late)))


def advice(kind: FileKind) -> str:
    """Return the command that reads a file of this kind, or that makes another form of it."""
    if kind in _reader_of():
        return _COMMANDS[Purpose(_reader_of()[kind].purpose)]
    return re.sub(r"\{(\w+)\}", lambda word: INSTEAD.get(word[1], word[0]), kind.instead)


def recognised(path: Path) -> Iterator[FileKind]:
    """Yield the kinds that a file or folder may be of, the likeliest first.

    Yields nothing for a file that is empty, unknown or cannot be read.
    """
    yield from held(kinds(), path) if path.is_dir() else in_text(ends_of_file(path), path.name)


def in_text(text: Text, name: str = "") -> list[FileKind]:
    """Return the kinds that a file's text, or its name, may be of; the likeliest first."""
    marked = matching(kinds(), text)
    if any(kind in _reader_of() for kind in marked):
        return marked
    # The first bytes and the name prove most.
    by_name = named(kinds(), name)
    sure = [kind for kind in kinds() if kind in by_name or (kind.starts and kind in marked)]
    return list(dict.fromkeys([*sure, *marked]))


def expect(path: Path, *purposes: Purpose) -> FileReader | None:
    """Return the reader of a file or folder that is read for one of the purposes; None: the file
    is of no known kind, is empty or cannot be read.

    Raises DocumentError for a file of another kind, and for one that is two kinds at once: it says
    what the file is and what to do.
    """
    return _expected(list(recognised(path)), path, *purposes)


def reader_of(text: Text, source: Path | str, *purposes: Purpose) -> FileReader:
    """Return the reader of a file with this text; see :func:`expect`.

    Raises DocumentError also for a file that is empty or of no known kind.
    """
    if not text.head.strip():
        raise DocumentError(source, "is empty")
    reader = _expected(in_text(text, Path(source).name), source, *purposes)
    if reader is None:
        begins = text.first(comments=True).strip()[:_SHOWN]
        names = dict.fromkeys(kind.name for each in readers(*purposes) for kind in each.kinds)
        raise DocumentError(
            source,
            f"is of no format that Berth knows; it begins with {begins!r}",
            hint=f"Berth reads {', '.join(names)}",
        )
    return reader


def _expected(found: list[FileKind], source: Path | str, *purposes: Purpose) -> FileReader | None:
    if not found:
        return None
    kind, read = found[0], _reader_of()
    if kind.line and kind in read:
        for other in found:
            if other.family != kind.family and other.line and other in read:
                raise DocumentError(
                    source,
                    f"is two kinds of file at once: {kind.name}, and {other.name}",
                    hint="write each into a file of its own",
                )
    reader = read.get(kind)
    if reader is None or reader.purpose not in purposes:
        hint = advice(kind) if reader is None else advice(kind).replace("FILE", str(source))
        raise DocumentError(source, f"is {kind.name}: {_NOUNS[purposes[0]]}", hint=hint)
    return reader


def read_measurements(
    path: Path, form: str | None, options: ImportOptions
) -> tuple[ImportedFile, list[ImportedRun]]:
    """Return a measurement file (or a database's folder) and the runs that it holds.

    ``form``: the reader's name; None: found by the content. Raises DocumentError, UsageError.
    """
    source = load(path)
    if path.is_dir():
        reader = expect(path, Purpose.PROFILE) or reader_named("hpctoolkit", PROFILE)
    elif form is not None:
        reader = reader_named(form, PROFILE)
    else:
        reader = reader_of(ends_of(source.raw), path, Purpose.PROFILE)
    return source, reader.read(source, options)
