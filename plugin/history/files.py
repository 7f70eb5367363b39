"""A file of past jobs, whatever wrote it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.plugin.history.reading import Read, text_of
from berth.plugin.history.swf import read_swf
from berth.plugin.scheduler.registry import SCHEDULERS, scheduler_named

SWF = "swf"
_GZIP = b"\x1f\x8b"


def lines_of(file: Path) -> list[str]:
    """Its lines, unpacked where gzip packed it. Raises DocumentError."""
    try:
        data = file.read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise DocumentError(file, "does not exist") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DocumentError(file, "is a broken gzip file") from None
    except OSError as error:
        raise DocumentError(file, f"cannot be read: {error.strerror}") from None
    return [text_of(line) for line in data.split(b"\n")]


def read_past_jobs(
    lines: Sequence[str], source: str, cluster: str, formats: Sequence[str], *, utc: bool
) -> Read:
    """By the named format, else by what the first line looks like; SWF where by nothing else.

    Raises DocumentError.
    """
    first = next((line.strip() for line in lines if line.strip()), "")
    known = [scheduler_named(name) for name in formats or SCHEDULERS.names() if name != SWF]
    for scheduler in known:
        if formats or scheduler.begins_past_jobs(first):
            return scheduler.read_past_jobs(lines, cluster, source=source, utc=utc)
    return read_swf(lines, cluster)
