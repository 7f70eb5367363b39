"""Restores a job's own memory request where the smaller request that Berth wrote was too small.

Such a job ends OUT_OF_MEMORY. It is requeued once and held, gets the original memory request, which
the filter saved in AdminComment (``was=``; no user can write AdminComment), and is released. From
then on Berth no longer makes the requests of similar jobs smaller. Slurm starts a requeued job
after about two minutes, when its nodes have cleaned up (started at once, the job may fail: seen
with Slurm 22.05).

Each restore is recorded in a file before it begins, so that a helper that was killed continues
where it stopped. Berth never makes the request smaller of a job that Slurm may not run twice
(``--no-requeue``, JobRequeue=0).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from berth.pilot.errors import BerthError
from berth.pilot.units import whole_number
from berth.plugin.right_sizing import guard
from berth.plugin.right_sizing.guard import Guard
from berth.plugin.scheduler.helper_files import read_helper_file, write_helper_file
from berth.plugin.slurm import commands
from berth.plugin.slurm.commands import read_configuration
from berth.plugin.slurm.put_back import field, stamped

log = logging.getLogger("berth.putback")

ENDED, HELD = "OUT_OF_MEMORY", "PENDING"
MARK = "memoryback="
"""A word in AdminComment that marks a job whose memory was restored; each job is restored only
once.
"""
_SAID = "(berth: ran out of the smaller memory request, runs again with its own)"
_BEGUN = TypeAdapter(dict[str, str])
_UPDATED = {"memory_mib_per_node": "MinMemoryNode", "memory_mib_per_cpu": "MinMemoryCPU"}


@dataclass(frozen=True, slots=True)
class ShortJob:
    """A job that ran out of memory, or is being restored, after Berth made its memory request
    smaller.
    """

    job: str
    user: str
    key: str
    """The key of this job and similar jobs (``right_sizing.fitting``)."""
    state: str
    was: Mapping[str, str]
    admin_comment: str
    comment: str
    marked: bool
    """True where the job's own memory request is restored already."""


def short_jobs(begun: Mapping[str, str]) -> Iterator[ShortJob]:
    """Yield jobs that ended out of memory under a smaller request, and jobs whose restore has
    begun.

    ``begun``: keys (``ShortJob.key``) by job id. Raises SchedulerError or ToolMissing.
    """
    listed = commands.run(("squeue", "-a", "-h", "-t", ENDED, "-o", "%A"))
    for job in dict.fromkeys((*begun, *(line.strip() for line in listed.splitlines()))):
        if whole_number(job) is None:
            continue
        short = short_job(job)
        if short is not None and (job in begun or not short.marked):
            yield short


def short_job(job: str) -> ShortJob | None:
    """Return the ShortJob of a job id; None: Berth did not make its request smaller, it may not run
    twice, or Slurm has forgotten it.

    Raises SchedulerError or ToolMissing.
    """

    def of(name: str) -> str:
        return field(job, name, "all")

    admin_comment = of("admin_comment")
    words, was = stamped(admin_comment)
    if "fit" not in words or not was:
        return None
    if (of("requeue"), of("batchflag")) != ("1", "1"):
        return None  # no batch job, or Slurm may not run it twice
    return ShortJob(
        job=job,
        user=of("username"),
        key=words["fit"],
        state=of("state"),
        was={key: value for key, value in was.items() if key in _UPDATED},
        admin_comment=admin_comment,
        comment=of("comment"),
        marked=MARK in admin_comment,
    )


def give_back(short: ShortJob, path: Path) -> bool:
    """Run the job again with its own memory request; return False if somebody else has handled the
    job.

    ``path``: the file of begun restores. Raises SchedulerError and DocumentError.
    """
    begun = load_begun(path)
    if short.state == ENDED and not short.marked:
        store_begun(path, {**begun, short.job: short.key})
        commands.run(("scontrol", "requeuehold", short.job))
    elif short.state != HELD or short.job not in begun:
        _forget(path, short.job)
        return False
    if not short.marked:
        _restore(short)
    commands.run(("scontrol", "release", short.job))
    _forget(path, short.job)
    log.info("job %s ran out of a smaller memory request: it runs again with its own", short.job)
    return True


def _restore(short: ShortJob) -> None:
    words = [f"{_UPDATED[key]}={value}" for key, value in short.was.items() if value.isdigit()]
    comment = " ".join(filter(None, (short.comment.partition("(berth: ")[0].strip(), _SAID)))
    commands.run(
        (
            "scontrol", "update", f"JobId={short.job}", *words,
            f"AdminComment={short.admin_comment} {MARK}{short.key}", f"Comment={comment}",
        )
    )  # fmt: skip


def round_of(ruled_out: Path, every_s: float, now_s: float) -> Iterator[str]:
    """Restore the request of every job that ran out of memory; yield one sentence per action.

    Records in a file that this helper is alive: the daemon makes requests smaller only while it is.
    Raises BerthError where Slurm or the files cannot be read.
    """
    path, begun_path = guard.beside(ruled_out), begun_beside(ruled_out)
    known = guard.load_or_nobody(path)
    requeue, patient = _settings(every_s)
    stopped = dict(known.stopped)
    problem: BerthError | None = None
    for short in list(short_jobs(load_begun(begun_path))):
        stopped[short.key] = now_s
        try:
            if give_back(short, begun_path):
                yield f"job {short.job} of {short.user}: out of memory, runs again with its own"
        except BerthError as error:
            problem = error
    alive_s = now_s if patient and problem is None else 0.0
    if path.parent.is_dir():
        guard.store(path, Guard(alive_s, every_s, requeue, stopped))
    else:  # without this file the daemon makes no memory request smaller
        yield f"memory requests stay as they are: there is no folder {path.parent}"
    if problem is not None:
        raise problem


def forget(ruled_out: Path) -> int:
    """Let Berth make memory requests smaller again where a job had run out of memory.

    Returns the number of job keys (``ShortJob.key``) that were blocked.
    """
    path = guard.beside(ruled_out)
    known = guard.load(path)
    if known.stopped:
        guard.store(path, replace(known, stopped={}))
    return len(known.stopped)


def begun_beside(ruled_out: Path) -> Path:
    """Return the path of the file that lists the jobs whose memory request is being restored."""
    return ruled_out.with_name("memory-begun.json")


def load_begun(path: Path) -> dict[str, str]:
    """Return the jobs whose memory restore has begun: their key (``ShortJob.key``) by job id.

    Raises DocumentError.
    """
    return read_helper_file(path, _BEGUN, {})


def store_begun(path: Path, begun: Mapping[str, str]) -> None:
    """Write the jobs whose memory restore has begun, flushed to disk. Raises DocumentError."""
    write_helper_file(path, _BEGUN, dict(begun), mode=None, durable=True)


def _forget(path: Path, job: str) -> None:
    begun = load_begun(path)
    if begun.pop(job, None) is not None:
        store_begun(path, begun)


def _settings(every_s: float) -> tuple[bool, bool]:
    """Return two answers: whether Slurm requeues jobs (JobRequeue), and whether it remembers ended
    jobs for more than two rounds of ``every_s`` seconds (MinJobAge).
    """
    config = read_configuration()
    age = re.match(r"\d+", config.get("MinJobAge", ""))
    remembered_s = -1.0 if age is None else float(age.group())
    return config.get("JobRequeue") == "1", remembered_s == 0.0 or remembered_s > 2 * every_s
