"""Reads files of past jobs, and of what jobs used, by the reader that is registered for each."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.pilot.importers.recogniser import HEAD_BYTES, Text
from berth.pilot.units import format_bytes
from berth.plugin.history.usage_files.reading import ReadUsages
from berth.plugin.readers import Purpose, expect, reader_of
from berth.plugin.scheduler.past_jobs import ReadJobs, text_of

_GZIP = b"\x1f\x8b"
MOST_TIMES = 50
"""Times its size that a gzipped file may unpack to: accounting's text is 8 to 20 times larger."""
LEAST_LIMIT_BYTES = 16 * 2**20
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def lines_of(file: Path) -> list[str]:
    """Return the file's lines, decompressed if the file is gzipped. Raises DocumentError."""
    if file.is_dir():
        expect(file, Purpose.PAST_JOBS)
        raise DocumentError(file, "is a folder, not a file", hint="give a file in it")
    try:
        data = file.read_bytes()
        if data.startswith(_GZIP):
            data = _unpacked(file, data)
    except FileNotFoundError:
        raise DocumentError(file, "does not exist") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        hint = "was it copied whole? gunzip --test says"
        raise DocumentError(file, "is a broken gzip file", hint=hint) from None
    except OSError as error:
        raise DocumentError(file, f"cannot be read: {error.strerror}") from None
    if data.startswith(_UTF_16):
        data = data.decode("utf-16", "replace").encode()
    return [text_of(line) for line in data.removeprefix(codecs.BOM_UTF8).split(b"\n")]


def _unpacked(file: Path, data: bytes) -> bytes:
    """Return what a gzipped file holds. Raises DocumentError where it unpacks to far more than text
    does, and what ``gzip`` raises."""
    most = max(LEAST_LIMIT_BYTES, MOST_TIMES * len(data))
    with gzip.open(io.BytesIO(data)) as stream:
        text = stream.read(most + 1)
    if len(text) > most:
        hint = "it holds no text of a scheduler; if it does: gunzip it first"
        raise DocumentError(file, f"unpacks to more than {format_bytes(most)}", hint=hint)
    return text


def ends_of_lines(lines: Sequence[str]) -> Text:
    """Return both ends of a file of these lines, which the recogniser looks at."""
    head, tail = _joined(lines), _joined(lines[::-1], backwards=True)
    return Text(head if len(head) < HEAD_BYTES else f"{head}\n{tail}", head)


def _joined(lines: Iterable[str], *, backwards: bool = False) -> str:
    """Return the first lines as one text of about ``HEAD_BYTES`` characters."""
    taken, size = [], 0
    for line in lines:
        taken.append(line)
        size += len(line) + 1
        if size >= HEAD_BYTES:
            break
    return "\n".join(taken[::-1] if backwards else taken)


def read_past_jobs(lines: Sequence[str], source: str, cluster: str, *, utc: bool) -> ReadJobs:
    """Return the jobs of a file by the reader that its content asks for.

    Raises DocumentError: the file is of no format of past jobs, or no job in it has run.
    """
    reader = reader_of(ends_of_lines(lines), source, Purpose.PAST_JOBS)
    read: ReadJobs = reader.read(lines, cluster, source=source, utc=utc)
    return read


def read_usages(
    path: Path, cluster: str, *, received_s: float, of_cluster: str | None = None
) -> ReadUsages:
    """Return what monitoring recorded of jobs, from a file.

    ``of_cluster``: the cluster, by jobstats' name, whose jobs are read. Raises DocumentError.
    """
    lines = lines_of(path)
    reader = reader_of(ends_of_lines(lines), path, Purpose.USAGE)
    read: ReadUsages = reader.read(
        path, lines, cluster, received_s=received_s, of_cluster=of_cluster
    )
    return read
