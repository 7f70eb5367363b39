"""Compares what several sources recorded of the same job: the better one counts, the other is
shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from berth.pilot.run import Run
from berth.pilot.units import format_bytes
from berth.pilot.usage.record import VALUES, Usage, in_order_of_trust
from berth.plugin.history.decided_jobs import RECORDED

if TYPE_CHECKING:
    from berth.plugin.store import Store

ACCOUNTING = "sacct"
COMPARED = {
    "peak_bytes": "host memory",
    "gpu_peak_bytes": "GPU memory",
    "gpu_utilisation": "GPU utilisation",
    "cpu_time_s": "processor time",
}
MOST_RATIO = 1.25
"""Two values disagree where one is more than this times the other, and, for utilisation, differs by
more than ``LEAST_SHARE``."""
LEAST_SHARE = 0.05


class Recorded(NamedTuple):
    """One value of a job as one source recorded it."""

    source: str
    value: float


@dataclass(frozen=True, slots=True)
class Differing:
    """A value of one job on which its two best sources disagree."""

    job_id: str
    name: str
    better: Recorded
    other: Recorded


def of_accounting(job: Run) -> Usage:
    """Return what the scheduler's accounting recorded of a job, as one source among others."""
    values = {name: getattr(job, name) for name in RECORDED.intersection(VALUES) - {"gpus"}}
    lacks = "peaks between two samples; gpu_utilisation is a mean over tasks, not over time"
    return Usage(job.cluster, job.job_id, ACCOUNTING, lacks=lacks, **values)


def usages_of(store: Store, cluster: str, job_id: str) -> Sequence[Usage]:
    """Return what accounting and all other sources recorded of a job. Raises StoreError."""
    job = store.past_jobs.of_ids(cluster, [job_id]).get(job_id)
    usages = store.usages.of_jobs(cluster, [job_id]).get(job_id, [])
    return usages if job is None else [*usages, of_accounting(job)]


def by_trust(usages: Iterable[Usage], name: str) -> list[Recorded]:
    """Return a value as each source recorded it, the most trusted source first."""
    return [
        Recorded(usage.source, value)
        for usage in in_order_of_trust(usages)
        if (value := getattr(usage, name)) is not None
    ]


def differing(usages: Sequence[Usage]) -> Iterable[Differing]:
    """Yield the values of one job on which its two best sources disagree."""
    for name in COMPARED:
        recorded = by_trust(usages, name)
        if len(recorded) < 2:
            continue
        better, other = recorded[:2]
        low, high = sorted((better.value, other.value))
        is_share = name == "gpu_utilisation"
        if high > MOST_RATIO * low and not (is_share and high - low <= LEAST_SHARE):
            yield Differing(usages[0].job_id, name, better, other)


def sentences(of_jobs: Mapping[str, Sequence[Usage]]) -> list[str]:
    """Return one line for each value and pair of sources that disagree, with the number of jobs
    and one of them."""
    groups: dict[tuple[str, str, str], list[Differing]] = {}
    for usages in of_jobs.values():
        for one in differing(usages):
            groups.setdefault((one.name, one.better.source, one.other.source), []).append(one)
    return [
        f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}: {better} and {other} disagree on "
        f"{COMPARED[name]}; {better} counts "
        f"(job {jobs[0].job_id}: {value_text(name, jobs[0].better.value)}, {other} "
        f"{value_text(name, jobs[0].other.value)})"
        for (name, better, other), jobs in groups.items()
    ]


def value_text(name: str, value: float) -> str:
    """Return a value of a usage for people: bytes, per cent, seconds or a number."""
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name.endswith("utilisation"):
        return f"{100 * value:.0f} %"
    if name.endswith("_s"):
        return f"{value:.0f} s"
    return f"{value:g}"
