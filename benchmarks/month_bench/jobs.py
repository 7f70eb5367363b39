"""A public trace's jobs as those of a site with an old and a new kind of node.

The trace has one kind. Here each program (user and requested time) runs ``ratio`` times longer on
the old kind, and its user submits it to the old kind, to the new kind, or to either by turns.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Iterator
from statistics import NormalDist
from typing import NamedTuple

from lab.datasets.ricc import Trace

OLD, NEW = "old", "new"
KINDS = (OLD, NEW)
MEAN_RATIO = 1.6
SPREAD = 0.35
"""Standard deviation of the log ratio between programs where ratios vary."""
DAY_S = 86_400.0
CORES_PER_NODE = 64
HEADER = (
    "JobID|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|"
    "NNodes|NTasks|ReqMem|MaxRSS|AllocTRES|JobName"
)


class Job(NamedTuple):
    """One job; times in seconds since the trace's beginning."""

    number: int
    user: str
    account: str
    program: str
    submit_s: float
    start_s: float
    new_s: float
    """Run time on the new kind."""
    ratio: float
    """Run time on the old kind over that on the new kind."""
    cores: int
    request_s: float
    memory_mib: int
    """Memory that the job asks for, per core."""
    completed: bool
    draw: tuple[int, ...] = ()
    """Which random draw of ratios and places; empty: the one that is simulated."""

    @property
    def limit_s(self) -> float:
        """The time limit: the trace's request, with room for the old kind."""
        return max(self.request_s, 60.0) * MEAN_RATIO

    def on(self, kind: str) -> float:
        """Run time on a kind, cut off at the time limit."""
        return min(self.new_s * (self.ratio if kind == OLD else 1.0), self.limit_s)

    @property
    def queue(self) -> str:
        """The kind to which the user submits the job."""
        drawn = uniform("program", self.program, self.user, *self.draw)
        if drawn < 0.8:
            return OLD if drawn < 0.45 else NEW
        return OLD if uniform("job", self.number, *self.draw) < 0.5 else NEW


def uniform(*key: object) -> float:
    """A number between 0 and 1 that depends on the key alone."""
    return int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16) / 16**12


def jobs_of(trace: Trace, *, varied: bool, draw: tuple[int, ...] = ()) -> list[Job]:
    """Every job of the trace; ``varied``: each program has a ratio of its own."""
    columns = (
        trace.submit_s, trace.start_s, trace.runtime_s, trace.cores, trace.request_s,
        trace.request_bytes, trace.user, trace.account, trace.completed,
    )  # fmt: skip
    jobs = []
    ratios: dict[tuple[str, str], float] = {}
    for number, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        submit_s, start_s, run_s, cores, request_s, memory_bytes, user, account, completed = row
        # Letters, because Berth leaves the digits of a job's name out.
        letters = "".join("abcdefghij"[int(digit)] for digit in str(int(request_s)))
        owner, program = f"u{user}", f"app-{letters}.sh"
        key = owner, program
        if key not in ratios:
            ratios[key] = _ratio(*key, draw) if varied else MEAN_RATIO
        memory_mib = max(1, int(memory_bytes / 2**20))
        job = Job(
            number, owner, f"g{account}", program, submit_s, start_s, run_s, ratios[key],
            max(int(cores), 1), request_s, memory_mib, bool(completed), draw,
        )  # fmt: skip
        jobs.append(job)
    return jobs


def _ratio(user: str, program: str, draw: tuple[int, ...]) -> float:
    drawn = min(max(uniform("ratio", program, user, *draw), 1e-6), 1 - 1e-6)
    return MEAN_RATIO * math.exp(SPREAD * NormalDist().inv_cdf(drawn))


def state_of(job: Job, elapsed_s: float) -> str:
    """The state that sacct gives: a job that is cut off at its time limit has not completed."""
    if elapsed_s >= job.limit_s:
        return "TIMEOUT"
    return "COMPLETED" if job.completed else "FAILED"


def accounting(jobs: Iterable[Job], end_s: float) -> Iterator[str]:
    """Lines of ``sacct --parsable2`` of the jobs that end before ``end_s``, which is now."""
    offset_s = time.time() - end_s - 60.0

    def moment(seconds: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds + offset_s))

    yield HEADER
    for job in jobs:
        kind = job.queue
        elapsed_s = job.on(kind)
        if job.start_s + elapsed_s > end_s:
            continue
        state = state_of(job, elapsed_s)
        times = [moment(job.submit_s), moment(job.start_s), moment(job.start_s + elapsed_s)]
        nodes = max(1, job.cores // CORES_PER_NODE)
        memory = f"{job.memory_mib * job.cores}M"
        limit_min = int(job.limit_s // 60)
        row: list[object] = [
            job.number, job.user, job.account, kind, state, *times, int(elapsed_s), limit_min,
            job.cores, nodes, "", memory, "", f"billing=1,cpu={job.cores}", job.program,
        ]  # fmt: skip
        yield "|".join(map(str, row))
        used = 0.25 + 0.3 * uniform("memory", job.program, job.user)
        peak = int(max(job.memory_mib, 50) * used * (0.9 + 0.2 * uniform("peak", job.number)))
        row = [
            f"{job.number}.0", "", "", "", state, *times, int(elapsed_s), "", job.cores, nodes,
            job.cores, "", f"{peak}M", f"cpu={job.cores}", "app",
        ]  # fmt: skip
        yield "|".join(map(str, row))
