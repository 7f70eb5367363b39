"""Restores a job's own request where what Berth wrote was too small: a smaller memory request, or
a MIG slice that was chosen by what past runs used.

Such a job ends OUT_OF_MEMORY, in a slice FAILED. It is requeued once and held, gets the original
request, which the filter saved in AdminComment (``was=``; no user can write AdminComment), and is
released. From then on Berth no longer makes the requests of similar jobs smaller. Slurm starts a
requeued job after about two minutes, when its nodes have cleaned up (started at once, the job may
fail: seen with Slurm 22.05).

A job whose type of GPU Berth wrote does not run again: ``scontrol update`` adds types to a job and
takes none away (Slurm 22.05), so that no node could run it. Only similar jobs go back to whole
GPUs.

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
from berth.plugin.daemon import memory_guard as guard
from berth.plugin.daemon.memory_guard import Guard
from berth.plugin.scheduler.helper_files import read_helper_file, write_helper_file
from berth.plugin.slurm import commands
from berth.plugin.slurm.commands import read_configuration
from berth.plugin.slurm.present_jobs import listed
from berth.plugin.slurm.put_back import FOREIGN, stamped, words_back
from berth.plugin.slurm.records import Record

log = logging.getLogger("berth.putback")

_FIELDS = ("JobID", "State", "UserName", "admin_comment", "comment", "requeue", "batchflag")
HELD = "PENDING"
ENDS = {"OUT_OF_MEMORY": "fit", "FAILED": "use"}
"""How a job ends for which Berth's request was too small, with the word in AdminComment that has
the key of jobs to which that can happen: memory by need, a slice by use."""
MARK = "memoryback="
"""A word in AdminComment that marks a job whose memory was restored; each job is restored only
once.
"""
_SAID = {
    "fit": "(berth: ran out of the smaller memory request, runs again with its own)",
    "use": "(berth: failed in the slice that Berth chose, runs again as it was asked for)",
}
TOLD = {
    "fit": "out of memory, runs again with its own",
    "use": "failed in a slice, runs again as it was asked for",
}
TYPED = "failed in a slice; Slurm cannot take its type of GPU back: its user may submit it again"
_BEGUN = TypeAdapter(dict[str, str])
_UPDATED = {"memory_mib_per_node": "MinMemoryNode", "memory_mib_per_cpu": "MinMemoryCPU"}


@dataclass(frozen=True, slots=True)
class ShortJob:
    """A job that ran out of memory or failed in a slice, or is being restored, after Berth made its
    request smaller.
    """

    job: str
    user: str
    key: str
    """The key of this job and similar jobs (``right_sizing.fitting``)."""
    kind: str
    """``fit``: the memory request was too small; ``use``: the slice was."""
    state: str
    was: Mapping[str, str]
    admin_comment: str
    comment: str
    marked: bool
    """True where the job's own request is restored already."""

    @property
    def typed(self) -> bool:
        """Return whether Berth wrote the type of the job's GPUs, which Slurm cannot take back."""
        return self.kind == "use" and not FOREIGN.isdisjoint(self.was)


def short_jobs(begun: Mapping[str, str]) -> Iterator[ShortJob]:
    """Yield jobs that ended for lack of what Berth took away, and jobs whose restore has begun.

    ``begun``: keys (``ShortJob.key``) by job id. Raises SchedulerError or ToolMissing.
    """
    for row in list(listed(_FIELDS, ",".join([*ENDS, *([HELD] if begun else [])]))):
        short = short_job(row, begun.get(row["JobID"], ""))
        if short is not None and (short.job in begun or not short.marked):
            yield short


def short_job(row: Record, begun: str = "") -> ShortJob | None:
    """Return the ShortJob of a record with ``_FIELDS``; None: Berth did not make its request
    smaller, it ended for another reason, or it may not run twice.

    ``begun``: what the file of begun restores says of it (``fit=KEY``, ``use=KEY``).
    """
    words, was = stamped(row["admin_comment"])
    kind = begun.partition("=")[0] if begun else ENDS.get(row["State"], "")
    if kind not in words or not was:
        return None
    if (row["requeue"], row["batchflag"]) != ("1", "1"):
        return None  # no batch job, or Slurm may not run it twice
    return ShortJob(
        job=row["JobID"],
        user=row["UserName"],
        key=words[kind],
        kind=kind,
        state=row["State"],
        was=was,
        admin_comment=row["admin_comment"],
        comment=row["comment"],
        marked=MARK in row["admin_comment"],
    )


def give_back(short: ShortJob, path: Path) -> bool:
    """Run the job again with its own request; return False if somebody else has handled the
    job.

    ``path``: the file of begun restores. Raises SchedulerError and DocumentError.
    """
    begun = load_begun(path)
    if short.state in ENDS and not short.marked:
        store_begun(path, {**begun, short.job: f"{short.kind}={short.key}"})
        commands.run(("scontrol", "requeuehold", short.job))
    elif short.state != HELD or short.job not in begun:
        _forget(path, short.job)
        return False
    if not short.marked:
        _restore(short)
    commands.run(("scontrol", "release", short.job))
    _forget(path, short.job)
    log.info("job %s: %s", short.job, TOLD[short.kind])
    return True


def _restore(short: ShortJob) -> None:
    memory = {_UPDATED[key]: of for key, of in short.was.items() if key in _UPDATED}
    words = [f"{key}={value}" for key, value in memory.items() if value.isdigit()]
    if short.kind == "use":
        words = list(words_back(short.was))
    said = (short.comment.partition("(berth: ")[0].strip(), _SAID[short.kind])
    comment = " ".join(filter(None, said))
    mark = f"AdminComment={short.admin_comment} {MARK}{short.key}"
    commands.update_job(short.job, (*words, mark, f"Comment={comment}"))


def round_of(ruled_out: Path, every_s: float, now_s: float) -> Iterator[str]:
    """Restore the request of every job for which Berth's was too small; yield a sentence each.

    Records in a file that this helper is alive: the daemon makes requests smaller only while it is.
    Raises BerthError where Slurm or the files cannot be read.
    """
    path, begun_path = guard.beside(ruled_out), begun_beside(ruled_out)
    known = guard.load_or_nobody(path)
    requeue, patient = _settings(every_s)
    stopped = dict(known.stopped)
    problem: BerthError | None = None
    begun = load_begun(begun_path)
    short_now = list(short_jobs(begun))
    for job in begun.keys() - {short.job for short in short_now}:
        _forget(begun_path, job)  # it runs, or Slurm has forgotten it
    for short in short_now:
        stopped[short.key] = now_s
        if short.typed:
            yield f"job {short.job} of {short.user}: {TYPED}"
            continue
        try:
            if give_back(short, begun_path):
                yield f"job {short.job} of {short.user}: {TOLD[short.kind]}"
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
