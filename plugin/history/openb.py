"""Reads the pods of a GPU cluster from Alibaba's ``openb_pod_list_*.csv`` (Weng et al., ATC 2023).

The first line names the columns, in any order; times are whole seconds since the start of the
trace. A pod that shares a GPU (``gpu_milli`` below 1000) is given a whole GPU, and such pods are
counted. The trace does not record where a pod ran; its queue is the list of GPU types that it may
use (``gpu_spec``), else ``gpu`` or ``cpu``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from berth.pilot.errors import DocumentError
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.run import Run
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import ReadJobs, Unreadable, cells_of, checked_times, name_of

NEEDED = (
    "name", "cpu_milli", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
SHARES = "pods share a GPU with others and are replayed with a whole one"
MILLI = 1000
_MIB = 2**20
_STATES = {"Succeeded": "completed", "Running": "completed", "Failed": "failed",
           "Pending": "completed"}  # fmt: skip
"""Job states by ``pod_phase``; services are still ``Running`` when they are deleted."""
_EMPTY = frozenset(("", "nan", "NaN"))
_MOST = 2**40
_MOST_GPUS = 2**20


def read_openb(lines: Sequence[str], cluster: str, *, source: str) -> ReadJobs:
    """Return the pods that were scheduled and deleted. Raises DocumentError for a file without a
    header."""
    read, shared = ReadJobs(), set()
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise DocumentError(source, "is empty")
    header = cells_of(numbered[0][1])
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise DocumentError(
            source,
            f"is no list of pods: it lacks {', '.join(missing)}",
            hint=f"its first line names the columns {','.join(NEEDED)}",
        )

    def parse(line: str) -> Run | None:
        cells = cells_of(line)
        if len(cells) != len(header):
            raise Unreadable("another number of fields than the header has")
        fields = dict(zip(header, cells, strict=True))
        job = _job(fields, cluster)
        if job is not None and 0 < _number(fields, "gpu_milli") < MILLI:
            shared.add(job.job_id)
        return job

    for number, line in numbered[1:]:
        read.take(number, line.rstrip("\r\n"), parse)
    if shared:
        read.changed[SHARES] = len(shared)
    return read


def _job(fields: Mapping[str, str], cluster: str) -> Run | None:
    name = name_of(fields["name"])
    if not name:
        raise Unreadable("a pod without a name")
    milli, gpus, part = (
        _number(fields, column) for column in ("cpu_milli", "num_gpu", "gpu_milli")
    )
    memory = _number(fields, "memory_mib") if "memory_mib" in fields else 0.0
    if part > MILLI or (0 < part < MILLI and gpus != 1):
        raise Unreadable("it asks for a part of a GPU, and not of one")
    if gpus != int(gpus) or gpus >= _MOST_GPUS:
        raise Unreadable("num_gpu is no whole number")
    submit_s, start_s, end_s = (
        None if fields[column] in _EMPTY else _number(fields, column)
        for column in ("creation_time", "scheduled_time", "deletion_time")
    )
    phase = fields.get("pod_phase", "Succeeded")
    if phase not in _STATES:
        raise Unreadable(f"the phase {phase[:30]!r} is not known")
    if submit_s is None:
        raise Unreadable("it says no creation_time")
    if start_s is None or end_s is None:
        return None
    elapsed_s = checked_times(submit_s, start_s, end_s, None)
    types = fields.get("gpu_spec", "")
    queue = types if types not in _EMPTY else "gpu" if gpus else "cpu"
    return Run(
        cluster=cluster,
        job_id=name[:64],
        user="",
        account=name_of(fields.get("qos", "")),
        name="",
        partition=name_of(queue),
        state=_STATES[phase],
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        cores=max(1, math.ceil(milli / MILLI)),
        nodes=1,
        gpus=int(gpus),
        time_limit_s=None,
        request_bytes=int(memory * _MIB) or None,
    )


def _number(fields: Mapping[str, str], name: str) -> float:
    try:
        number = float(fields[name])
    except ValueError:
        number = math.nan
    if not 0 <= number < _MOST:
        raise Unreadable(f"{name} is no number of 0 or more")
    return number


READERS = (
    FileReader("openb", Purpose.TRACE, (
        FileKind("Alibaba's list of pods (openb)", "openb",
                 columns=("name", "cpu_milli", "num_gpu", "gpu_milli", "creation_time")),
    ), lambda lines, cluster, *, source, **_: read_openb(lines, cluster, source=source)),
)  # fmt: skip
