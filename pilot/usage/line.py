"""The line that a node leaves at a job's end (schema ``berth.usage/1``), checked as it is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from berth.pilot.documents import Document, parse_json
from berth.pilot.usage.at_job_end import SCHEMA
from berth.pilot.usage.record import JOB_END, Usage

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Id = Annotated[str, Field(max_length=64)]
_Text = Annotated[str, Field(max_length=200)]
_USEC = 1e6
MOST_CACHE = 0.1
"""Largest part of the kernel's memory peak that may be file cache at the end. Above it the peak
tells what the node could cache, not what the program needed, and is not used."""


class GpuUsage(Document):
    """One GPU of the job: what NVML's accounting recorded of the job's processes on it."""

    gpu: _Count
    processes: _Count = 0
    time_ms: _Count = 0
    gpu_utilisation: _Share | None = None
    memory_utilisation: _Share | None = None
    memory_peak_bytes: _Count | None = None


class UsageLine(Document):
    """What a job used on one node, as ``at_job_end`` writes it."""

    schema_: str = Field(SCHEMA, alias="schema")
    scheduler: _Id
    cluster: _Id = ""
    job: Annotated[str, Field(min_length=1, max_length=64)]
    array_task: _Id = ""
    step: _Id = ""
    node: _Text
    written_s: float
    memory_peak_bytes: _Count | None = None
    memory_cache_bytes: _Count | None = None
    oom_kills: _Count | None = None
    cpu_usage_usec: _Count | None = None
    cpu_user_usec: _Count | None = None
    cpu_system_usec: _Count | None = None
    cpu_throttled_usec: _Count | None = None
    io_read_bytes: _Count | None = None
    io_written_bytes: _Count | None = None
    cpu_stalled_usec: _Count | None = None
    memory_stalled_usec: _Count | None = None
    io_stalled_usec: _Count | None = None
    gpus: tuple[GpuUsage, ...] = Field((), max_length=64)
    lacks: tuple[_Text, ...] = Field((), max_length=16)


def parse_line(text: str, source: str) -> UsageLine:
    """Return the line of a node. Raises DocumentError that names what is wrong with it."""
    return parse_json(text, UsageLine, source=source)


def usage_of(line: UsageLine, cluster: str, job_id: str, reporter: str, received_s: float) -> Usage:
    """Return a node's line as Usage, with the site's name and the job's id in the store's form."""
    gpus = [gpu for gpu in line.gpus if gpu.processes]
    mostly_cache = (line.memory_cache_bytes or 0) > MOST_CACHE * (line.memory_peak_bytes or 0)
    lacks = [*line.lacks, *(["cgroup: the peak is mostly file cache"] if mostly_cache else [])]
    peaks = [gpu.memory_peak_bytes for gpu in gpus if gpu.memory_peak_bytes is not None]
    return Usage(
        cluster=cluster,
        job_id=job_id,
        source=JOB_END,
        node=line.node,
        step=line.step,
        reporter=reporter,
        received_s=received_s,
        cpu_time_s=_seconds(line.cpu_usage_usec),
        peak_bytes=None if mostly_cache else line.memory_peak_bytes,
        disk_read_bytes=line.io_read_bytes,
        disk_written_bytes=line.io_written_bytes,
        gpus=len(gpus) or None,
        gpu_peak_bytes=max(peaks, default=None),
        gpu_utilisation=_mean([(gpu.gpu_utilisation, gpu.time_ms) for gpu in gpus]),
        gpu_memory_utilisation=_mean([(gpu.memory_utilisation, gpu.time_ms) for gpu in gpus]),
        oom_kills=line.oom_kills,
        cpu_stalled_s=_seconds(line.cpu_stalled_usec),
        memory_stalled_s=_seconds(line.memory_stalled_usec),
        io_stalled_s=_seconds(line.io_stalled_usec),
        lacks="; ".join(lacks),
    )


def _seconds(usec: int | None) -> float | None:
    return None if usec is None else usec / _USEC


def _mean(weighted: list[tuple[float | None, int]]) -> float | None:
    """Return the mean share, weighted by the time (ms) for which each is known."""
    known = [(share, time_ms) for share, time_ms in weighted if share is not None and time_ms]
    total = sum(time_ms for _, time_ms in known)
    return sum(share * time_ms for share, time_ms in known) / total if total else None
