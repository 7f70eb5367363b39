"""What is recorded of one finished job: the same values whichever source they come from.

Sources differ in what they see. A kernel's own peak is better than samples; a driver's accounting
of each process is better than samples of a GPU. ``of_job`` takes each value from the best source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

JOB_END = "job-end"
"""Source: ``berth pilot usage`` read the control group and NVML's accounting at the job's end."""
BEST_FIRST = (JOB_END, "jobstats", "csv", "sacct")
"""Sources by how much their values are trusted; others come after these."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one source recorded of one job, on one node or on all of them. None: not recorded."""

    cluster: str
    job_id: str
    source: str
    node: str = ""
    """The node that the values are of; empty: all nodes of the job together."""
    step: str = ""
    """The step of the job after which the values were read; empty: after the whole job. Values of
    a node only grow from step to step."""
    reporter: str = ""
    """The user whose word this is; empty: the site's own. A user is believed on own jobs only."""
    received_s: float = 0.0
    """When Berth took it in (Unix time, by the collecting host's clock)."""
    cpu_time_s: float | None = None
    """Processor time of all processes."""
    peak_bytes: int | None = None
    """The largest host memory used on one node."""
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    gpus: int | None = None
    """Number of GPUs of which something was recorded."""
    gpu_peak_bytes: int | None = None
    """The largest memory used on one GPU."""
    gpu_utilisation: float | None = None
    """Mean share of the time with a kernel on the GPU, from 0 to 1, while processes used it."""
    gpu_memory_utilisation: float | None = None
    """Mean share of the time with GPU memory being read or written, from 0 to 1, likewise."""
    oom_kills: int | None = None
    """Number of processes that the kernel killed for lack of memory."""
    cpu_stalled_s: float | None = None
    """Time for which some process waited for a core; likewise memory and storage."""
    memory_stalled_s: float | None = None
    io_stalled_s: float | None = None
    lacks: str = ""
    """What the source could not read, and why, in clauses separated by ``; ``."""


_IDENTITY = frozenset(
    ("cluster", "job_id", "source", "node", "step", "reporter", "received_s", "lacks")
)
VALUES = tuple(field.name for field in fields(Usage) if field.name not in _IDENTITY)
_OF_ONE = frozenset(("peak_bytes", "gpu_peak_bytes"))
_MEANS = frozenset(("gpu_utilisation", "gpu_memory_utilisation"))


def of_job(usages: Iterable[Usage], user: str) -> Usage | None:
    """Return what is known of one job of ``user``, each value from the best source that has it.

    None where no source is to be believed. ``source`` names the sources that gave a value, the
    best first; ``lacks`` is the best one's.
    """
    by_source: dict[str, list[Usage]] = {}
    for usage in usages:
        if usage.reporter in ("", user):
            by_source.setdefault(usage.source, []).append(usage)
    if not by_source:
        return None
    ordered = [_of_nodes(by_source[source]) for source in sorted(by_source, key=trust)]
    values: dict[str, float | None] = {}
    sources = []
    for usage in ordered:
        fresh = {name for name in VALUES if values.get(name) is None} & _known(usage)
        values.update({name: getattr(usage, name) for name in fresh})
        if fresh:
            sources.append(usage.source)
    return replace(ordered[0], source="+".join(sources), **values)  # type: ignore[arg-type]


def _known(usage: Usage) -> set[str]:
    return {name for name in VALUES if getattr(usage, name) is not None}


def in_order_of_trust(usages: Iterable[Usage]) -> list[Usage]:
    """Return usages of one job, those of the most trusted source first."""
    return sorted(usages, key=lambda usage: trust(usage.source))


def trust(source: str) -> tuple[int, str]:
    """Return a key that sorts sources by how much their values are trusted, the most first."""
    return (BEST_FIRST.index(source) if source in BEST_FIRST else len(BEST_FIRST), source)


def _of_nodes(usages: Sequence[Usage]) -> Usage:
    """Return one source's values of the whole job from those of nodes and steps."""
    by_node: dict[str, list[Usage]] = {}
    for usage in usages:
        by_node.setdefault(usage.node, []).append(usage)
    # A later step's line repeats what the earlier ones counted, so the largest value counts.
    nodes = [
        {name: _largest(getattr(usage, name) for usage in of_node) for name in VALUES}
        for of_node in by_node.values()
    ]
    values: dict[str, float | None] = {}
    for name in VALUES:
        known = [node[name] for node in nodes if node[name] is not None]
        total = sum(value for value in known if value is not None)
        if not known:
            values[name] = None
        elif name in _OF_ONE:
            values[name] = _largest(known)
        else:
            values[name] = total / len(known) if name in _MEANS else total
    newest = max(usages, key=lambda usage: usage.received_s)
    return replace(newest, node="", step="", **values)  # type: ignore[arg-type]


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
