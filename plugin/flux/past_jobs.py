"""Reads past jobs from ``flux jobs -A -a --json``, or from an archive of Flux's jobs.

The list does not name a job's dependencies; an archive does. An archive is the table ``jobs`` of
``job-archive`` or flux-accounting: a SQLite file with one row per ended job, with its times, its
resource set (R, RFC 20) and its jobspec (RFC 25). Flux records no peak memory.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError, SchedulerError
from berth.pilot.progress import steps
from berth.pilot.run import Run
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import value_at
from berth.plugin.flux.outcomes import parse_outcomes
from berth.plugin.flux.present_jobs import job_number
from berth.plugin.scheduler.host_lists import idset
from berth.plugin.scheduler.node_kinds import recorded_nodes
from berth.plugin.scheduler.past_jobs import SINGLETON, ReadJobs, Unreadable, checked_times, name_of

SQLITE = "SQLite format 3"
"""The first characters of an archive of jobs; see ``read_archive``."""
_RESULTS = {"COMPLETED": "completed", "FAILED": "failed", "CANCELED": "cancelled",
            "TIMEOUT": "timeout"}  # fmt: skip


_ASK_TIMEOUT_S = 600.0
_LARGEST = 1e18
_LONGEST_ID = 64


def ask(cluster: str, since_s: float) -> ReadJobs:
    """Return the jobs that Flux knows since a Unix time. Raises SchedulerError and ToolMissing."""
    text = commands.run(
        "jobs", "-A", "-a", "--json", "--count=0", f"--since={since_s:.0f}",
        timeout_s=_ASK_TIMEOUT_S,
    )  # fmt: skip
    return read_flux(text, cluster, source="flux jobs")


def read_flux(text: str, cluster: str, *, source: str) -> ReadJobs:
    """Return the inactive jobs that ran, from the JSON of ``flux jobs``. Raises DocumentError where
    the text is no list of jobs.
    """
    try:
        jobs = commands.listed_jobs(text)
    except SchedulerError:
        jobs = None
    if jobs is None or not (jobs or '"jobs"' in text):  # an empty list of jobs is valid
        raise DocumentError(
            source, "is not Flux's list of jobs", hint="write it with: flux jobs -A -a --json"
        )
    read = ReadJobs()
    for number, job in enumerate(steps("jobs read", jobs), 1):
        read.take(number, job, lambda job: _job(job, cluster))
    return read


def _job(job: Any, cluster: str) -> Run | None:
    if not isinstance(job, dict):
        raise Unreadable("a job is not an object")
    if job.get("state") != "INACTIVE":
        return None
    identity = job.get("id")
    known = isinstance(identity, int | str) and not isinstance(identity, bool)
    job_id = name_of(str(identity))[:_LONGEST_ID] if known else ""
    if not job_id:
        raise Unreadable("no id")
    start_s, end_s = _number(job, "t_run"), _number(job, "t_cleanup")
    if end_s is None:
        end_s = _number(job, "t_inactive")
    if not start_s or end_s is None:
        return None
    submit_s = _number(job, "t_submit")
    elapsed_s = checked_times(submit_s, start_s, end_s, None)
    user = job.get("username")
    return Run(
        cluster=cluster,
        job_id=job_id,
        user=name_of(user if isinstance(user, str) and user else f"uid:{job.get('userid')}"),
        account=_text(job, "bank"),
        name=_text(job, "name"),
        partition=_text(job, "queue"),
        state=_RESULTS.get(str(job.get("result")), "failed"),
        submit_s=start_s if submit_s is None else submit_s,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        cores=max(_count(job, "ncores") or 1, 1),
        nodes=_count(job, "nnodes") or 1,
        gpus=_count(job, "ngpus"),
        node_list=recorded_nodes(str(job.get("nodelist") or "")),
        time_limit_s=_number(job, "duration") or None,
    )


def _number(job: Mapping[str, Any], key: str) -> float | None:
    value = job.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{key} is not a number")
    if not -_LARGEST < value < _LARGEST:  # also false for NaN
        raise Unreadable(f"{key} is no number that can be")
    return float(value)


def _count(job: Mapping[str, Any], key: str) -> int | None:
    value = _number(job, key)
    return int(value) if value is not None and 0 < value < 2**30 else None


def _text(job: Mapping[str, Any], key: str) -> str:
    value = job.get(key)
    return name_of(value) if isinstance(value, str) else ""


NEEDED = ("id", "userid", "t_submit", "t_run", "t_inactive", "R", "jobspec")
_MORE = ("t_cleanup", "eventlog", "bank")
_ENDS = ("afterany", "afterok", "afternotok", "afterexcept")
_NO_JOB = ("begin-time",)
"""Dependency schemes that refer to no other job and are satisfied once the job runs."""


def read_archive(file: Path, cluster: str) -> ReadJobs:
    """Return the jobs that ran, from an archive. Raises DocumentError where the file has no such
    table.
    """
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            present_columns = {str(row[1]) for row in database.execute("PRAGMA table_info(jobs)")}
            missing = [name for name in NEEDED if name not in present_columns]
            if missing:
                raise DocumentError(
                    file, f"has no table of Flux's jobs: it lacks {', '.join(missing)}"
                )
            columns = [*NEEDED, *(name for name in _MORE if name in present_columns)]
            # The column names are the constants above, never a user's text.
            query = f"SELECT {', '.join(columns)} FROM jobs ORDER BY t_submit"  # noqa: S608 # nosec B608
            return _read(columns, database.execute(query), cluster)
    except sqlite3.Error as error:
        raise DocumentError(file, f"is a database that cannot be read: {error}") from None


def _read(columns: Sequence[str], rows: Iterable[Sequence[Any]], cluster: str) -> ReadJobs:
    read = ReadJobs()
    for number, values in enumerate(rows, 1):
        row = dict(zip(columns, values, strict=True))
        job_id = read.take(number, row, lambda row: _archived_job(row, cluster))
        if job_id is not None:
            note_dependencies(job_id, _object(row, "jobspec"), read)
    return read


def note_dependencies(job_id: str, jobspec: Mapping[str, Any], read: ReadJobs) -> None:
    """Record in ``read`` which jobs this job waited for, according to its jobspec."""
    after: list[str] = []
    dependencies = value_at(jobspec, "attributes", "system", "dependencies")
    for dependency in dependencies if isinstance(dependencies, list) else ():
        scheme, value = (str(value_at(dependency, key) or "") for key in ("scheme", "value"))
        number = job_number(value)
        if scheme in _ENDS and number is not None:
            after.append(str(number))
        elif scheme == SINGLETON:
            after.append(SINGLETON)
        elif scheme not in _NO_JOB:
            read.not_followed += 1
    if after:
        read.after[job_id] = tuple(after)


def _archived_job(row: Mapping[str, Any], cluster: str) -> Run | None:
    number = job_number(str(row["id"]).strip())
    if number is None:
        raise Unreadable("no id")
    submit_s, start_s = _number(row, "t_submit"), _number(row, "t_run")
    end_s = _number(row, "t_cleanup") or _number(row, "t_inactive")
    if not start_s or not end_s:
        return None
    elapsed_s = checked_times(submit_s, start_s, end_s, None)
    spec = _object(row, "jobspec")
    try:
        nodes, cores, gpus, node_list = _held(_object(row, "R"))
        system = value_at(spec, "attributes", "system") or {}
        duration = float(system.get("duration") or 0)
        name = value_at(spec, "attributes", "system", "job", "name") or _command(spec)
        state = _state(str(number), row)
    except (*commands.UNEXPECTED, SchedulerError):
        raise Unreadable("its resource set, jobspec or eventlog is not one of Flux's") from None
    return Run(
        cluster=cluster,
        job_id=str(number),
        user=f"uid:{row['userid']}"[:64],
        account=name_of(str(row.get("bank") or system.get("bank") or "")),
        name=name_of(str(name)),
        partition=name_of(str(system.get("queue") or "")),
        state=state,
        submit_s=start_s if submit_s is None else submit_s,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        cores=max(cores, 1),
        nodes=max(nodes, 1),
        gpus=gpus or None,
        node_list=recorded_nodes(node_list),
        time_limit_s=duration if duration > 0 else None,
    )


def _held(resource_set: Mapping[str, Any]) -> tuple[int, int, int, str]:
    """Return the number of nodes, cores and GPUs in a resource set, and the list of its nodes."""
    nodes = cores = gpus = 0
    for entry in resource_set["execution"]["R_lite"]:
        ranks, children = len(idset(entry["rank"])), entry["children"]
        nodes += ranks
        cores += ranks * len(idset(children.get("core", "")))
        gpus += ranks * len(idset(children.get("gpu", "")))
    node_list = resource_set["execution"].get("nodelist") or ()
    return nodes, cores, gpus, ",".join(map(str, node_list))


def _command(spec: Mapping[str, Any]) -> str:
    """Return the name of the program that an unnamed job runs, which Flux uses as the
    job's name.
    """
    return str(spec["tasks"][0]["command"][0]).rpartition("/")[2] if spec.get("tasks") else ""


def _state(job_id: str, row: Mapping[str, Any]) -> str:
    """Return the job's final state from its eventlog; ``completed`` where the archive has no
    eventlog.
    """
    if not row.get("eventlog"):
        return "completed"
    return parse_outcomes({job_id: {"eventlog": row["eventlog"], "jobspec": "{}"}})[job_id].state


def _object(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    try:
        value = json.loads(row[key])
    except commands.UNEXPECTED:
        value = None
    if not isinstance(value, dict):
        raise Unreadable(f"{key} is no JSON object")
    return value
