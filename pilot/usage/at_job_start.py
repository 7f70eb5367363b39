"""Starts ``perf stat`` on the control group of a job that starts, where its counts are wanted.

It runs as Slurm's Prolog (with ``PrologFlags=RunInJob``) or TaskProlog, and returns as soon as a
child, in a session of its own, has become perf. ``at_job_end`` ends perf and takes its counts. The
list in the spool says whose jobs are counted and how often (``perf_list``).
"""

from __future__ import annotations

import os
import sys

if __package__:
    from berth.pilot.usage import at_job_end
else:
    import at_job_end  # type: ignore[import-not-found, no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Environment = Mapping[str, str]

PERF = "/usr/bin/perf"
EVENTS = (
    "instructions", "cycles", "branches", "branch-misses", "L1-dcache-loads",
    "L1-dcache-stores", "L1-dcache-load-misses", "LLC-load-misses",
)  # fmt: skip
"""Generic events, which perf knows on every processor; those it lacks are ``<not supported>``."""
LONGEST_MS = 7 * 86_400_000
"""perf ends itself after a week, for jobs whose end nobody told."""
_BATCH_STEP = "4294967291"
_ONE = ("", "1")


def main() -> None:
    """Start perf if the job's counts are wanted, and exit with status 0 whatever happens."""
    try:
        if is_wanted(os.environ):
            import select

            left, its_end = os.pipe()
            if os.fork() == 0:
                _become_perf(os.environ)
            os.close(its_end)
            poll = select.poll()
            poll.register(left, select.POLLIN | select.POLLHUP)  # until the child's end closes
            poll.poll(1000.0 * at_job_end.DEADLINE_S)
    except BaseException:  # noqa: S110 (a failing Prolog drains its node)
        pass
    os._exit(0)


def is_wanted(environ: Environment) -> bool:
    """Return whether this job is to be counted: a job on one node without GPUs, of a listed user,
    whose number is a multiple of the list's."""
    spool = environ.get("BERTH_USAGE_SPOOL") or at_job_end.SPOOL
    job = environ.get("SLURM_JOB_ID", "")
    path = f"{spool}/{at_job_end.LIST}"
    try:
        if os.stat(path).st_uid not in (0, os.stat(spool).st_uid):
            return False  # any user may leave files in the spool
    except OSError:
        return False
    first, *users = at_job_end.content(path).decode("ascii", "replace").split("\n")
    every = first.removeprefix("one in ")
    is_of_batch = environ.get("SLURM_STEP_ID", _BATCH_STEP) == _BATCH_STEP
    nodes = environ.get("SLURM_JOB_NUM_NODES", "")
    return (
        job.isdigit()
        and every.isdigit()
        and int(every) > 0
        and int(job) % int(every) == 0
        and (at_job_end.name_in(environ, "SLURM_JOB_USER") or " ") in users
        and nodes in _ONE
        and is_of_batch
        and environ.get("SLURM_LOCALID", "0") == "0"
        and not at_job_end.has_gpus(environ)
    )


def _become_perf(environ: Environment) -> None:
    """Count the job's group until ``at_job_end`` interrupts; never return."""
    try:
        os.setsid()  # Slurm ends what a script leaves in the script's own session
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        root, job = at_job_end.cgroup_root(environ), environ["SLURM_JOB_ID"]
        group = at_job_end.job_group(root, job, environ)
        folder = at_job_end.counts_folder(environ, job)
        if group is None:
            os._exit(0)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder, 0o700)  # fails where anybody made it before
        errors = os.open(f"{folder}/errors", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.dup2(errors, 2)
        pid = os.open(f"{folder}/pid", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(pid, str(os.getpid()).encode())
        os.close(pid)
        events = ",".join(f"{event}:u" for event in EVENTS)
        perf = environ.get("BERTH_USAGE_PERF") or PERF
        os.execve(  # nosec B606
            perf,
            [perf, "stat", "-a", "-x,", "-o", f"{folder}/counts", "--timeout", str(LONGEST_MS),
             "-e", f"{events},task-clock", "-G", group[len(root):]],
            {"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}"[:200].encode("ascii", "replace"))
    os._exit(0)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
