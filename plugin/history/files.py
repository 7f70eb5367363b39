"""Reads files of past jobs in any supported format.

Each scheduler's module reads that scheduler's accounting; this module reads the Standard Workload
Format (https://www.cs.huji.ac.il/labs/parallel/workload/swf.html): eighteen numbers per line, -1
for unknown values; ``; UnixStartTime: N`` gives the Unix time of second 0.
"""

from __future__ import annotations

import codecs
import gzip
import math
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.pilot.importers.foreign import (
    HEAD_BYTES,
    FileKind,
    Purpose,
    Text,
    expect,
    expected,
    in_text,
)
from berth.pilot.progress import steps
from berth.pilot.run import Run
from berth.plugin.history.pbs import PBS, read_pbs
from berth.plugin.scheduler.past_jobs import ReadJobs, Unreadable, checked_times, text_of
from berth.plugin.scheduler.registry import SCHEDULERS, scheduler_named

SWF = "swf"
FORMATS = (SWF, PBS)
"""Formats that are read here, beside those of the schedulers."""
_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def lines_of(file: Path) -> list[str]:
    """Return the file's lines, decompressed if the file is gzipped. Raises DocumentError."""
    if file.is_dir():
        expect(file, Purpose.PAST_JOBS)
        raise DocumentError(file, "is a folder, not a file", hint="give a file in it")
    try:
        data = file.read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
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


def kind_of(lines: Sequence[str], source: str, *purposes: Purpose) -> FileKind | None:
    """Return the kind of a file with these lines; None: no known kind.

    Raises DocumentError for a file that is empty, of another kind, or of two kinds at once.
    """
    head, tail = _joined(lines), _joined(lines[::-1], backwards=True)
    if not head.strip():
        raise DocumentError(source, "is empty")
    whole = head if len(head) < HEAD_BYTES else f"{head}\n{tail}"
    return expected(list(in_text(Text(whole, head), Path(source).name)), source, *purposes)


def _joined(lines: Iterable[str], *, backwards: bool = False) -> str:
    """Return the first lines as one text of about ``HEAD_BYTES`` characters."""
    taken, size = [], 0
    for line in lines:
        taken.append(line)
        size += len(line) + 1
        if size >= HEAD_BYTES:
            break
    return "\n".join(taken[::-1] if backwards else taken)


def read_past_jobs(
    lines: Sequence[str], source: str, cluster: str, formats: Sequence[str], *, utc: bool
) -> ReadJobs:
    """Return the jobs of a file, read in the first of ``formats``, else in the format that the
    file's content shows.

    Raises DocumentError: the file is of no format of past jobs, or no job in it has run.
    """
    if formats:
        name = formats[0]
    else:
        kind = kind_of(lines, source, Purpose.PAST_JOBS)
        name = kind.reader if kind is not None else _begun_by_scheduler(lines, source)
    if name == SWF:
        read = read_swf(lines, cluster)
    elif name == PBS:
        read = read_pbs(lines, cluster)
    else:
        read = scheduler_named(name).read_past_jobs(lines, cluster, source=source, utc=utc)
    return read


def _begun_by_scheduler(lines: Sequence[str], source: str) -> str:
    """Return the name of a scheduler that another package adds, and that wrote the file."""
    first = next(line.strip() for line in lines if line.strip())
    others = set(SCHEDULERS.names()).difference(SCHEDULERS.own())
    for name in sorted(others):
        if scheduler_named(name).begins_past_jobs(first):
            return name
    raise DocumentError(
        source,
        f"is of no format of past jobs that Berth knows; it begins with {first[:80]!r}",
        hint="Berth reads sacct -a -P and --json, flux jobs -A -a --json, accounting logs of PBS, "
        "and the Standard Workload Format",
    )


_FIELDS = 18
_START = "UnixStartTime:"
_MOST, _LARGEST_ID = 2**31, 2**53
_IDS = {"job": 0, "user": 11, "group": 12, "program": 13, "queue": 14, "partition": 15}
"""Columns of SWF that hold numbers of things, by what they number."""
_STATES = {0: "failed", 1: "completed", 2: "cancelled", 3: "completed", 4: "failed", 5: "cancelled"}


def read_swf(lines: Iterable[str], cluster: str) -> ReadJobs:
    """Return every job of an SWF file that ran; a line for a checkpointed part of a job (status
    2 to 4) counts as a run."""
    read = ReadJobs()
    first_s = 0.0
    numbered = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(";"):
            head, mark, value = text.lstrip("; ").partition(_START)
            if mark and not head:
                first_s = _start(value)
        elif text:
            numbered.append((number, text))
    for number, text in steps("lines read", numbered):
        read.take(number, text, lambda line: _swf_job(line, cluster, first_s))
    return read


def _start(value: str) -> float:
    try:
        start_s = float(value.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return 0.0
    return start_s if start_s > 0 and math.isfinite(start_s) else 0.0


def _swf_job(line: str, cluster: str, first_s: float) -> Run | None:
    parts = line.split()[:_FIELDS]  # some archives have columns of their own behind them
    if len(parts) < _FIELDS:
        raise Unreadable(f"{len(parts)} fields where SWF has {_FIELDS}")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise Unreadable("a field is not a number") from None
    if not all(math.isfinite(number) for number in numbers):
        raise Unreadable("a field is not a finite number")
    job, submit, wait, run, used, _, memory, requested, limit, wanted = numbers[:10]
    status, user, group, executable, queue, partition = numbers[10:16]
    if submit < 0:
        raise Unreadable("no time of submission")
    if run < 0 and run != -1:
        raise Unreadable("a negative run time")
    if run < 0 or (status == 5 and run == 0) or (wait < 0 and run <= 0):
        return None
    submit_s = first_s + submit
    start_s = submit_s + max(wait, 0.0)
    cores = int(requested if requested > 0 else used)
    if not 1 <= cores < _MOST:
        raise Unreadable("no number of processors that can be")
    for name, column in _IDS.items():
        if abs(numbers[column]) >= _LARGEST_ID:
            raise Unreadable(f"{parts[column]} is no number of a {name} that can be")
    runtime_s = checked_times(submit_s, start_s, start_s + run, run)
    return Run(
        cluster=cluster,
        job_id=str(int(job)),
        user=_numbered("user", user),
        account=_numbered("group", group),
        name=_numbered("application", executable),
        partition=_numbered("queue", queue) or _numbered("partition", partition),
        state=_STATES.get(int(status), "unknown"),
        submit_s=submit_s,
        start_s=start_s,
        end_s=start_s + run,
        elapsed_s=runtime_s,
        cores=cores,
        time_limit_s=limit if limit > 0 else None,
        request_bytes=_bytes(wanted, requested if requested > 0 else used),
        peak_bytes=_bytes(memory, used if used > 0 else requested),
        peak_source="reported" if memory > 0 else "",
    )


def _numbered(word: str, number: float) -> str:
    return f"{word}{int(number)}" if number >= 0 else ""


def _bytes(kib_per_processor: float, processors: float) -> int | None:
    total_bytes = kib_per_processor * 1024.0 * max(processors, 1.0)
    return int(total_bytes) if kib_per_processor > 0 and total_bytes < 2**60 else None
