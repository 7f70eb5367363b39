"""Gives a job its own memory request back where the smaller one that Berth wrote was too little.

Such a job ends OUT_OF_MEMORY. It is requeued once, held, gets the memory that the filter wrote down
of it (``was=`` beside the stamp in AdminComment, which no user can write), and is released; its
kind of job keeps its requests from then on. Slurm starts a requeued job after about two minutes,
when its nodes have tidied up (started at once, it may fail: seen with Slurm 22.05).

What is begun is written down first: a helper that was killed goes on where it stopped. A job that
Slurm may not run twice (``--no-requeue``, JobRequeue=0) never had its request made smaller.
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
"""A word in AdminComment of a job that got its memory back: that happens once."""
_SAID = "(berth: ran out of the smaller memory request, runs again with its own)"
_BEGUN = TypeAdapter(dict[str, str])
_UPDATED = {"memory_mib_per_node": "MinMemoryNode", "memory_mib_per_cpu": "MinMemoryCPU"}


@dataclass(frozen=True, slots=True)
class ShortJob:
    """A job that had too little."""

    job: str
    user: str
    key: str
    """The key of its kind of job (``right_sizing.fitting``)."""
    state: str
    was: Mapping[str, str]
    admin_comment: str
    comment: str
    marked: bool
    """It has its memory back."""


def short_jobs(begun: Mapping[str, str]) -> Iterator[ShortJob]:
    """Yield jobs that ended out of memory under a smaller request, and those in ``begun``.

    Raises SchedulerError or ToolMissing.
    """
    listed = commands.run(("squeue", "-a", "-h", "-t", ENDED, "-o", "%A"))
    for job in dict.fromkeys((*begun, *(line.strip() for line in listed.splitlines()))):
        if whole_number(job) is None:
            continue
        short = short_job(job)
        if short is not None and (job in begun or not short.marked):
            yield short


def short_job(job: str) -> ShortJob | None:
    """Return what Slurm says of a job; None: its request was not made smaller, or it is forgotten.

    Raises SchedulerError or ToolMissing.
    """

    def of(name: str) -> str:
        return field(job, name, "all")

    admin_comment = of("admin_comment")
    words, was = stamped(admin_comment)
    if "fit" not in words or not was:
        return None
    if (of("requeue"), of("batchflag")) != ("1", "1"):
        return None  # it is not a batch job that may run twice
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
    """Run it again with its own request; False: somebody else saw to it.

    ``path``: where what is begun stands. Raises SchedulerError and DocumentError.
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
    """Look once, say what was done, and tell the daemon that somebody looks.

    Raises BerthError where Slurm or the files cannot be asked.
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
    else:  # without the file the daemon makes no request smaller
        yield f"memory requests stay as they are: there is no folder {path.parent}"
    if problem is not None:
        raise problem


def forget(ruled_out: Path) -> int:
    """Let requests of every kind of job be made smaller again; how many were left alone."""
    path = guard.beside(ruled_out)
    known = guard.load(path)
    if known.stopped:
        guard.store(path, replace(known, stopped={}))
    return len(known.stopped)


def begun_beside(ruled_out: Path) -> Path:
    """Return the file with the jobs that are being given their memory back."""
    return ruled_out.with_name("memory-begun.json")


def load_begun(path: Path) -> dict[str, str]:
    """Return the keys of such jobs by job id. Raises DocumentError."""
    return read_helper_file(path, _BEGUN, {})


def store_begun(path: Path, begun: Mapping[str, str]) -> None:
    """Write it, surely on disk when this returns. Raises DocumentError."""
    write_helper_file(path, _BEGUN, dict(begun), mode=None, durable=True)


def _forget(path: Path, job: str) -> None:
    begun = load_begun(path)
    if begun.pop(job, None) is not None:
        store_begun(path, begun)


def _settings(every_s: float) -> tuple[bool, bool]:
    """Return whether Slurm requeues jobs, and whether it remembers ended ones for long enough."""
    config = read_configuration()
    age = re.match(r"\d+", config.get("MinJobAge", ""))
    remembered_s = -1.0 if age is None else float(age.group())
    return config.get("JobRequeue") == "1", remembered_s == 0.0 or remembered_s > 2 * every_s
