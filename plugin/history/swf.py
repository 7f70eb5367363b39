"""Reads traces in the Standard Workload Format.

https://www.cs.huji.ac.il/labs/parallel/workload/swf.html: eighteen numbers per line, -1 for unknown
values; ``; UnixStartTime: N`` gives the Unix time of second 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.progress import steps
from berth.pilot.run import Run
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import ReadJobs, Unreadable, checked_times

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


_TRACE = "a trace in the Standard Workload Format"
_NUMBER = r"-?\d+(\.\d+)?"
READERS = (
    FileReader("swf", Purpose.PAST_JOBS, (
        FileKind(_TRACE, "swf",
                 line=r";\s*(UnixStartTime|Computer|MaxJobs|MaxProcs|Version|Installation):"),
        FileKind(_TRACE, "swf", first=r"\s*(?:;|-?\d)",
                 line=rf"[ \t]*{_NUMBER}([ \t]+{_NUMBER}){{17,}}[ \t]*$"),
    ), lambda lines, cluster, **_: read_swf(lines, cluster)),
)  # fmt: skip
