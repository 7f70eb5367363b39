"""Two public traces' jobs as those of a site with several kinds of node.

A CPU program is a user's jobs of one requested time in RICC's trace; a GPU program is a user's jobs
of one model and batch size in Gavel's, with that model's measured ratio of two GPUs. Drawn by seed:
who submits a GPU job, what programs are called, how much longer they take on each kind, and to
which kind their users submit them.
"""

from __future__ import annotations

import functools
import hashlib
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from month_bench.sites import CORES_PER_NODE, LEAST_RATIO, MOST_RATIO, SCARCE, Kind

from lab.datasets import locate
from lab.datasets.gavel import THROUGHPUTS, arrivals, scaled
from lab.datasets.ricc import Trace, trace

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
SHARED_NAMES = ("job.sh", "run.sh", "submit.sh", "sub.sh")
CODES = ("lammps", "vasp", "gromacs", "namd", "cp2k", "openfoam", "wrf", "orca")
"""Names under which several users run one code, whose ratios are nearly alike."""
GPU_USERS, USERS_OF_A_MODEL = 25, 3
MOST_GPU_S, GPU_LIMIT_S = DAY_S, 2 * DAY_S
CORES_PER_GPU = 8
HIGH_MEMORY_MIB, MOST_MEMORY_MIB = 512 * 1024, 3_500
"""Memory of jobs that need a high-memory node, and the most per core of all others."""


class Job(NamedTuple):
    """One job; times in seconds since the trace's beginning."""

    number: int
    user: str
    program: str
    """The program that the job runs, known to the oracle alone: others may have its name."""
    submit_s: float
    start_s: float
    cores: int
    gpus: int
    limit_s: float
    memory_mib: int
    """Memory that the job asks for, per core."""
    completed: bool
    run_s: dict[str, float]
    """Run time by kind, for the kinds where it can run, in the order of their nodes."""
    name: str = ""
    own: str = ""
    """The kind to which its user submits it."""

    @property
    def fitting(self) -> tuple[str, ...]:
        """The kinds where it can run; scarce ones only where it fits on no other."""
        ordinary = tuple(kind for kind in self.run_s if kind not in SCARCE)
        return ordinary or tuple(self.run_s)


def uniform(*key: object) -> float:
    """A number between 0 and 1 that depends on the key alone."""
    return (int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16) + 0.5) / 16**12


def jobs_of(
    kinds: Sequence[Kind], seed: int, begin_s: float, end_s: float, most: tuple[int, int]
) -> tuple[list[Job], list[Job]]:
    """Return the jobs of a month, which ends at ``end_s``, and of the week after it.

    ``most``: jobs of one user in the month and in the week; of more, a random sample.
    """
    every = _of_ricc(begin_s, end_s + WEEK_S)
    if any(kind.gres for kind in kinds):
        every += _of_gavel(begin_s, end_s + WEEK_S)
    month = _sampled([job for job in every if job.submit_s < end_s], seed, most[0])
    week = _sampled([job for job in every if job.submit_s >= end_s], seed, most[1])
    times: dict[str, list[float]] = defaultdict(list)
    for job in month + week:
        times[job.program].append(min(job.run_s.values()))
    median_s = {program: statistics.median(each) for program, each in times.items()}
    drawn = [_drawn(job, kinds, seed, median_s[job.program]) for job in month + week]
    return drawn[: len(month)], drawn[len(month) :]


@functools.cache
def ricc() -> Trace:
    """Return RICC's trace, read once."""
    return trace()


def _of_ricc(begin_s: float, end_s: float) -> list[Job]:
    """The CPU jobs, which are those of the new kind."""
    every = ricc()
    every = every[(every.submit_s >= begin_s) & (every.submit_s < end_s)]
    columns = (
        every.user, every.submit_s, every.start_s, every.cores, every.request_s,
        every.request_bytes, every.completed, every.runtime_s,
    )  # fmt: skip
    jobs = []
    for number, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        user, submit_s, start_s, cores, request_s, memory, completed, run_s = row
        program, memory_mib = f"u{user}/{int(request_s)}", max(1, int(memory / 2**20))
        jobs.append(
            Job(number, f"u{user}", program, submit_s, start_s, max(int(cores), 1), 0,
                max(request_s, 60.0), min(memory_mib, MOST_MEMORY_MIB), completed, {"new": run_s})
        )  # fmt: skip
    return jobs


def _of_gavel(begin_s: float, end_s: float) -> list[Job]:
    """The GPU jobs, spread over the time; the first month has one trace, the others another."""
    speeds = {(s.device, s.job_type, s.gpus): s.steps_per_s for s in scaled(locate(THROUGHPUTS))}
    read = arrivals(0 if begin_s == 0.0 else 1)
    stretch = (end_s - begin_s) / (read[-1].submit_s + 1.0)
    jobs = []
    for number, job in enumerate(read, 1_000_000):
        new, old = (speeds.get((gpu, job.job_type, job.gpus)) for gpu in ("v100", "p100"))
        if new is None or old is None:
            continue
        drawn = uniform("gpu user", job.job_type, number % USERS_OF_A_MODEL)
        user, model = f"g{int(drawn * GPU_USERS)}", "".join(filter(str.isalnum, job.job_type))
        submit_s, run_s = begin_s + job.submit_s * stretch, min(job.steps / new, MOST_GPU_S)
        jobs.append(
            Job(number, user, f"{user}/{model}", submit_s, submit_s, CORES_PER_GPU * job.gpus,
                job.gpus, GPU_LIMIT_S, MOST_MEMORY_MIB, True,
                {"gpu-old": run_s * new / old, "gpu-new": run_s})
        )  # fmt: skip
    return jobs


def _sampled(jobs: Sequence[Job], seed: int, most: int) -> list[Job]:
    of_user: dict[str, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: uniform("sample", job.number, seed)):
        of_user[job.user].append(job)
    kept = [job for each in of_user.values() for job in each[:most]]
    return sorted(kept, key=lambda job: (job.submit_s, job.number))


def _drawn(job: Job, kinds: Sequence[Kind], seed: int, median_s: float) -> Job:
    name, is_code = _name(job.program, seed)
    run_s, fastest_s = job.run_s, min(job.run_s.values())
    if not job.gpus:
        able = [kind for kind in kinds if kind.memory_gib * 1024 >= HIGH_MEMORY_MIB]
        if able and uniform("needs memory", job.program, seed) < 0.05:
            cores = min(job.cores, CORES_PER_NODE)
            job = job._replace(cores=cores, memory_mib=HIGH_MEMORY_MIB // cores)
        else:
            able = list(kinds)
        run_s = {
            kind.name: fastest_s * _ratio(job.program, kind, name if is_code else "", seed)
            for kind in able
        }
    # The limit leaves room on every kind, so that no rule gains by jobs that are cut off.
    limit_s = 60.0 * math.ceil(job.limit_s * max(1.0, max(run_s.values()) / fastest_s) / 60.0)
    run_s = {kind: min(seconds, limit_s) for kind, seconds in run_s.items()}
    drawn = job._replace(run_s=run_s, limit_s=limit_s, name=name)
    return drawn._replace(own=_habit(drawn, seed, is_small=fastest_s < median_s))


def _name(program: str, seed: int) -> tuple[str, bool]:
    """Return the job name of a program, and whether it is that of a code of several users."""
    drawn = uniform("name", program, seed)
    if drawn < 0.35:
        return SHARED_NAMES[int(drawn / 0.35 * len(SHARED_NAMES))], False
    if drawn < 0.55:
        return CODES[int((drawn - 0.35) / 0.2 * len(CODES))], True
    # Letters, because Berth leaves the digits of a job's name out.
    letters = "".join(chr(97 + int(c)) if c.isdigit() else c for c in program.split("/")[1])
    return f"app-{letters}.sh", False


def _ratio(program: str, kind: Kind, code: str, seed: int) -> float:
    """How many times longer a CPU program takes on a kind than on the new one."""
    if kind.spread == 0.0:
        return kind.slower
    drawn = NormalDist().inv_cdf(uniform("ratio", code or program, kind.name, seed))
    if code:
        drawn += 0.1 * NormalDist().inv_cdf(uniform("of the user", program, kind.name, seed))
    return min(max(kind.slower * math.exp(kind.spread * drawn), LEAST_RATIO), MOST_RATIO)


def _habit(job: Job, seed: int, *, is_small: bool) -> str:
    """Where its user submits a job: to one kind always, by turns, or by the size of its input."""
    slow, fast = (job.fitting * 2)[:2]
    habit = uniform("habit", job.program, seed)
    if "himem" in job.run_s and habit > 0.93:
        return "himem"
    if habit < 0.4:
        return slow if habit < 0.22 else fast
    if habit < 0.6:
        return slow if is_small == (habit < 0.5) else fast
    return slow if uniform("job", job.number, seed) < 0.5 else fast
