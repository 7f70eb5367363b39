"""Compares the memory and time that jobs used with the memory and time that they requested, for
each user and job name."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from berth.pilot.run import Run
from berth.pilot.units import format_bytes, format_elapsed
from berth.plugin.history.matching import known_name

LAST_RUNS = 50
LEAST_RUNS = 3
"""Least number of runs from which advice is given."""
MEMORY_MARGIN = 1.2
"""Advised memory over the largest measured peak; ``POLLED_MARGIN`` where peaks were polled,
which misses short ones."""
POLLED_MARGIN = 1.5
WORTH_SAYING = 2.0
"""Memory is advised only where requested over advised memory is at least this."""
_RAN = frozenset(("completed", "failed", "timeout", "out-of-memory"))


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice for one user's jobs of one name, or of one script where they have no telling name."""

    user: str
    name: str
    """The jobs' name, with digits replaced by ``#``."""
    runs: int
    asked_bytes: int | None
    """Memory requested per node (bytes), by the newest run whose request is recorded."""
    peak_bytes: int | None
    """The largest peak per node of all runs (bytes)."""
    peak_runs: int
    """Number of runs whose peak was recorded."""
    polled: bool
    advised_bytes: int | None
    """Advised request per node (bytes); None: no change is advised."""
    asked_s: float | None
    longest_s: float
    median_s: float
    out_of_memory: int
    timeouts: int
    jobs: tuple[Run, ...]
    """The runs, the newest last."""

    def sentence(self) -> str:
        """Return the advice as text: ``asks 64 GB, needed at most 3.1 GB in 14 runs``."""
        parts = []
        if self.asked_bytes is not None and self.peak_bytes is not None:
            polled = " (polled: short peaks are missed)" if self.polled else ""
            parts.append(
                f"asks {format_bytes(self.asked_bytes)} a node, needed at most "
                f"{format_bytes(self.peak_bytes)} in {_runs(self.peak_runs)}{polled}"
            )
        elif self.asked_bytes is not None:
            parts.append(
                f"asks {format_bytes(self.asked_bytes)} a node, what it needed is not known"
            )
        if self.asked_s is not None:
            parts.append(
                f"asks {format_elapsed(self.asked_s)}, ran at most {format_elapsed(self.longest_s)}"
                f" (median {format_elapsed(self.median_s)}) in {_runs(self.runs)}"
            )
        if self.out_of_memory:
            parts.append(f"{_runs(self.out_of_memory)} ended out of memory")
        if self.timeouts:
            parts.append(f"{_runs(self.timeouts)} reached the time limit")
        if self.advised_bytes is not None:
            parts.append(f"{format_bytes(self.advised_bytes)} would do")
        return "; ".join(parts) or f"ran {_runs(self.runs)}, what it asked for is not recorded"

    @property
    def saved_share(self) -> float:
        """Return the share (0 to 1) of the requested memory that following the advice would
        free."""
        if self.advised_bytes is None or not self.asked_bytes:
            return 0.0
        return 1.0 - self.advised_bytes / self.asked_bytes


def advise(jobs: Iterable[Run]) -> list[Advice]:
    """Return advice for each user and job name, the largest saving first; jobs without a telling
    name are grouped by script."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for job in jobs:
        if job.state in _RAN:
            name = known_name(job.name, job.program) or job.script
            groups.setdefault((job.user, name), []).append(job)
    advice = [
        _advice(user, sorted(runs, key=lambda job: job.end_s or 0.0)[-LAST_RUNS:])
        for (user, _), runs in groups.items()
        if len(runs) >= LEAST_RUNS
    ]
    return sorted(advice, key=lambda one: (-one.saved_share, one.user, one.name))


def _advice(user: str, runs: Sequence[Run]) -> Advice:
    # A job that was killed for memory needed more than its peak.
    measured = [job for job in runs if job.peak_bytes and job.state != "out-of-memory"]
    peak = max((job.peak_bytes or 0 for job in measured), default=None)
    asked_bytes = next((job.request_bytes for job in reversed(runs) if job.request_bytes), None)
    polled = any(job.peak_source != "cgroup" for job in measured)
    killed = sum(job.state == "out-of-memory" for job in runs)
    advised = None
    if peak is not None and asked_bytes is not None and not killed and len(measured) >= LEAST_RUNS:
        wanted = int(peak * (POLLED_MARGIN if polled else MEMORY_MARGIN))
        advised = wanted if asked_bytes >= WORTH_SAYING * wanted else None
    times = [job.elapsed_s for job in runs]
    return Advice(
        user=user,
        name=known_name(runs[-1].name, runs[-1].program) or _of_cores(runs[-1].cores or 1),
        runs=len(runs),
        asked_bytes=asked_bytes,
        peak_bytes=peak,
        peak_runs=len(measured),
        polled=polled and bool(measured),
        advised_bytes=advised,
        asked_s=next((job.time_limit_s for job in reversed(runs) if job.time_limit_s), None),
        longest_s=max(times),
        median_s=statistics.median(times),
        out_of_memory=killed,
        timeouts=sum(job.state == "timeout" for job in runs),
        jobs=tuple(runs),
    )


def _of_cores(cores: int) -> str:
    return "jobs of 1 core" if cores == 1 else f"jobs of {cores} cores"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
