"""Jobs of a busy machine in three public forms of traces, replayed beside the definition."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from queue_by_definition import Job, starts

from berth.plugin.replay.past import past_jobs
from berth.policies.replay import Backfill, Settings, one_pool, replay

BEGIN_S = 1_262_304_000


def busy_months(seed: str, count: int, cores: int) -> list[Job]:
    """Jobs of 50 users that ask for almost all cores: powers of two, limits in steps, some killed.

    One in 20 has no limit, some run for days; several come within one second.
    """
    draw, jobs, at_s = random.Random(seed), [], 0.0  # noqa: S311
    for _ in range(count):
        need = min(cores, 2 ** draw.randrange(0, int(math.log2(cores)) + 1))
        run_s = max(1, int(draw.lognormvariate(7.0, 1.8)))
        steps = (600, 3_600, 14_400, 43_200, 86_400, 259_200)
        limit_s = next((step for step in steps if step * draw.uniform(0.7, 1.4) > run_s), 259_200)
        is_unlimited = draw.random() < 0.05
        if is_unlimited and need < cores // 4:
            run_s = int(draw.uniform(0.1, 4.0) * 86_400)  # past the day that is planned for it
        jobs.append(Job(int(at_s), run_s, need, None if is_unlimited else limit_s,
                        draw.randrange(50)))  # fmt: skip
        # On average as many core-seconds arrive as the machine has.
        at_s += draw.choice([0.0, 2.0]) * draw.expovariate(cores / (min(run_s, limit_s) * need))
    return jobs


def swf(jobs: Sequence[Job]) -> str:
    """The Standard Workload Format (Feitelson 2006): comments, 18 fields, -1: unknown."""
    lines = [f"; UnixStartTime: {BEGIN_S}", "; MaxNodes: 256", ";"]
    for n, job in enumerate(jobs, 1):
        limit = -1 if job.limit_s is None else job.limit_s
        lines.append(
            f"{n} {job.submit_s} -1 {job.run_s} {job.cores} -1 -1 {job.cores} {limit} -1 1 "
            f"{job.user + 1} 1 -1 1 1 -1 -1"
        )
    return "\n".join(lines) + "\n"


def long_swf(jobs: Sequence[Job]) -> str:
    """As archives with more fields have it: 21 of them, and users of 14 digits."""
    head, *rows = swf(jobs).splitlines()[2:]
    lines = []
    for row in rows:
        fields = row.split()
        fields[11] = str(20_101_500_000_000 + int(fields[11]))
        lines.append(" ".join([*fields, "7", "-1", "0.5"]))
    return "\n".join([head, *lines]) + "\n"


def sacct(jobs: Sequence[Job]) -> str:
    """What ``sacct -P`` prints, in UTC; each job began when it was submitted."""
    names = "JobID|User|Partition|State|Submit|Start|End|Timelimit|AllocCPUS|NNodes|ReqMem"
    lines = [names]
    for n, job in enumerate(jobs, 1):
        begin, end = (_iso(BEGIN_S + job.submit_s + after) for after in (0, job.run_s))
        limit = "UNLIMITED" if job.limit_s is None else _limit(job.limit_s)
        lines.append(
            f"{n}|u{job.user}|batch|COMPLETED|{begin}|{begin}|{end}|{limit}|{job.cores}|1|0"
        )
    return "\n".join(lines) + "\n"


def _iso(unix_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))


def _limit(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    return f"{days}-{rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


FORMS = {"archive.swf": swf, "long.swf": long_swf, "sacct.txt": sacct}
"""The writers, by the name of a file."""


def differing(file: Path, jobs: Sequence[Job], cores: int, *, easy: bool) -> list[int]:
    """The jobs that the replay of the file starts at another second than the definition."""
    trace = past_jobs(file, utc=True).trace
    assert len(trace) == len(jobs)
    trace = replace(trace, queue=trace.queue * 0, queues=("all",))
    settings = Settings(Backfill.EASY if easy else Backfill.FCFS, compiled=False)
    begun = replay(trace, one_pool(cores), settings).start_s - trace.submit_s[0]
    expected = np.array(starts(jobs, cores, easy=easy)) - jobs[0].submit_s
    return np.flatnonzero(begun != expected).tolist()
