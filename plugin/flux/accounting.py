"""Reads what Flux records of its jobs: job-list's records, eventlogs, and archives of ended jobs.

``flux jobs --json`` and the broker's service ``job-list`` tell of a job in one form, but for words
in the place of numbers. Jobs that job-list has forgotten have an eventlog (RFC 21). The list does
not name a job's dependencies; an archive does. An archive is the table ``jobs`` of ``job-archive``
or flux-accounting: a SQLite file with one row per ended job, with its times, its resource set (R,
RFC 20) and its jobspec (RFC 25). Flux records no peak memory.
"""

from __future__ import annotations

import errno
import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError, SchedulerError
from berth.pilot.progress import steps
from berth.pilot.run import Run
from berth.plugin import usernames
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import ANONYMOUS, one_line, value_at
from berth.plugin.flux.present_jobs import job_name, job_number
from berth.plugin.scheduler import EndedJobs, stamped_decision, unmoved_by_filter
from berth.plugin.scheduler.host_lists import idset
from berth.plugin.scheduler.node_kinds import recorded_nodes
from berth.plugin.scheduler.past_jobs import SINGLETON, ReadJobs, Unreadable, checked_times, name_of

SQLITE = "SQLite format 3"
"""The first characters of an archive of jobs; see ``read_archive``."""
_STATES = {
    **dict.fromkeys((1, 2, 4, 8, "NEW", "DEPEND", "PRIORITY", "SCHED"), "pending"),
    **dict.fromkeys((16, 32, "RUN", "CLEANUP"), "running"),
}
_INACTIVE = (64, "INACTIVE")
"""Job states (RFC 21), as job-list numbers them and as words."""
_RESULTS = {
    1: "completed", 2: "failed", 4: "cancelled", 8: "timeout",
    "COMPLETED": "completed", "FAILED": "failed", "CANCELED": "cancelled", "TIMEOUT": "timeout",
}  # fmt: skip
_ASK_TIMEOUT_S = 600.0
_LONGEST_PROBLEM = 300
_LARGEST = 1e18


def past_jobs(cluster: str, since_s: float) -> ReadJobs:
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
        read.take(number, job, lambda job: _ran(job, cluster))
    return read


def _ran(job: Any, cluster: str) -> Run | None:
    """Return a job that ran and ended; None: it did not. Raises Unreadable."""
    if not isinstance(job, dict):
        raise Unreadable("a job is not an object")
    if job.get("state") not in _INACTIVE:
        return None
    identity = job.get("id")
    number = None if isinstance(identity, bool) else job_number(str(identity).strip())
    if number is None:
        raise Unreadable("no id")
    run = run_of(job_name(number), job, cluster)
    if not run.start_s or run.end_s is None:
        return None
    checked_times(run.submit_s, run.start_s, run.end_s, None)
    return replace(
        run,
        raw_id=str(number),
        state="failed" if run.state == "unknown" else run.state,
        submit_s=run.start_s if run.submit_s is None else run.submit_s,
        cores=max(run.cores or 1, 1),
        nodes=run.nodes or 1,
    )


def run_of(job_id: str, job: Mapping[str, Any], cluster: str = "") -> Run:
    """Return a job as job-list has it. Raises KeyError without a known state, and Unreadable."""
    if job["state"] in _INACTIVE:
        state = _RESULTS.get(job.get("result", 0), "unknown")
    else:
        state = _STATES[job["state"]]
    start_s, end_s = _number(job, "t_run"), _number(job, "t_cleanup")
    if end_s is None:
        end_s = _number(job, "t_inactive")
    user = job.get("username")
    if not isinstance(user, str) or not user:
        user = f"uid:{job['userid']}" if "userid" in job else ""
    wait_status = _number(job, "waitstatus")
    return Run(
        cluster=cluster,
        job_id=job_id,
        user=name_of(user)[:64],
        account=_text(job, "bank"),
        name=_text(job, "name"),
        partition=_text(job, "queue") or ANONYMOUS,
        state=state,
        submit_s=_number(job, "t_submit"),
        start_s=start_s,
        end_s=end_s,
        elapsed_s=_elapsed_s(start_s, end_s),
        cores=_count(job, "ncores"),
        nodes=_count(job, "nnodes"),
        gpus=_count(job, "ngpus"),
        node_list=recorded_nodes(str(job.get("nodelist") or "")),
        time_limit_s=_number(job, "duration") or None,
        exit_status=None if wait_status is None else _exit_status(int(wait_status)),
    )


def _exit_status(wait_status: int) -> int:
    """Return the exit status as a shell reports it, from the status of wait(2)."""
    signal = wait_status & 127
    return 128 + signal if signal else wait_status >> 8 & 255


def _elapsed_s(started_s: float | None, ended_s: float | None) -> float:
    if started_s is None:
        return 0.0
    return max(0.0, (time.time() if ended_s is None else ended_s) - started_s)


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


# Jobs as they are now, from ``services.py``


def parse_ended(lines: Iterable[str]) -> EndedJobs:
    """Parse the lines of ``services.py ended``; unreadable lines are left out and the first is
    reported.
    """
    outcomes, problem, unmoved = list[Run](), None, dict[str, str]()
    for line in lines:
        try:
            answer = json.loads(line)
            error = answer.get("error")
            if error is None:
                outcomes.append(_ended(answer))
                unmoved |= unmoved_by_filter(str(answer.get("stamp")))
                continue
        except commands.UNEXPECTED as error:
            refused = f"Flux's record of a job cannot be read: {type(error).__name__} {error}"
        else:
            refused = f"Flux does not tell the jobspec of job {answer.get('id')}: {error}"
            if answer.get("errno") == errno.EPERM:
                refused = "only the owner of the Flux instance may read other users' jobspecs"
        problem = problem or one_line(refused, _LONGEST_PROBLEM)
    return EndedJobs(tuple(outcomes), problem, unmoved)


def _ended(answer: Mapping[str, Any]) -> Run:
    stamp = answer.get("stamp")
    run = _present(str(answer["id"]), {**answer["job"], "ngpus": answer.get("gpus")})
    return replace(run, decision=stamped_decision(stamp) if isinstance(stamp, str) else None)


def parse_outcomes(answers: Mapping[str, Any]) -> dict[str, Run]:
    """Return outcomes by job id, from the output of ``services.py jobs``. Raises SchedulerError."""
    outcomes = {}
    for job_id, answer in answers.items():
        try:
            if "job" in answer:
                outcomes[job_id] = _present(job_id, answer["job"])
            elif "eventlog" in answer:
                outcomes[job_id] = _logged(job_id, answer)
        except commands.UNEXPECTED as error:
            problem = f"record of job {job_id} cannot be read: {type(error).__name__} {error}"
            raise SchedulerError(one_line(f"Flux's {problem}", _LONGEST_PROBLEM)) from None
    return outcomes


def _present(job_id: str, job: Mapping[str, Any]) -> Run:
    """Return a job of this machine's Flux, with its user's name instead of the number."""
    named = {"username": usernames.name_of(int(job["userid"]))} if "userid" in job else {}
    number = job_number(job_id)
    return replace(run_of(job_id, {**job, **named}), raw_id=str(number or ""))


def _logged(job_id: str, answer: Mapping[str, Any]) -> Run:
    """Derive the outcome from the eventlog (RFC 21); the first fatal exception determines the
    state.
    """
    state, started_s, ended_s = "pending", None, None
    fatal: str | None = None
    for line in answer["eventlog"].splitlines():
        event = json.loads(line)
        name, context = event["name"], event.get("context") or {}
        if name == "alloc":
            state, started_s = "running", float(event["timestamp"])
        elif name == "exception" and context.get("severity") == 0:
            fatal = fatal or str(context.get("type"))
            ended_s = ended_s or float(event["timestamp"])
        elif name == "finish":
            ended_s = float(event["timestamp"])
            state = "completed" if context.get("status") == 0 else "failed"
        elif name == "clean" and state in ("pending", "running"):
            state = "failed"
    if fatal is not None and state != "running":
        state = {"cancel": "cancelled", "timeout": "timeout"}.get(fatal, "failed")
    jobspec = json.loads(answer.get("jobspec") or "{}")
    return Run(
        cluster="",
        job_id=job_id,
        state=state,
        partition=str(value_at(jobspec, "attributes", "system", "queue") or ANONYMOUS),
        elapsed_s=_elapsed_s(started_s, ended_s),
    )


# Archives


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
            after.append(job_name(number))
        elif scheme == SINGLETON:
            after.append(SINGLETON)
        elif scheme not in _NO_JOB:
            read.not_followed += 1
    if after:
        read.after[job_id] = tuple(after)


def _archived_job(row: Mapping[str, Any], cluster: str) -> Run | None:
    """Return the job of a row, which is first put in the form of ``flux jobs``."""
    if not _number(row, "t_run"):
        return None
    spec = _object(row, "jobspec")
    try:
        nodes, cores, gpus, node_list = _held(_object(row, "R"))
        system = value_at(spec, "attributes", "system") or {}
        duration = float(system.get("duration") or 0)
        name = value_at(spec, "attributes", "system", "job", "name") or _command(spec)
        state = _state(str(row["id"]), row)
    except (*commands.UNEXPECTED, SchedulerError):
        raise Unreadable("its resource set, jobspec or eventlog is not one of Flux's") from None
    listed = {
        **row,
        "state": "INACTIVE",
        "bank": row.get("bank") or system.get("bank"),
        "name": str(name),
        "queue": system.get("queue"),
        "nnodes": nodes,
        "ncores": cores,
        "ngpus": gpus,
        "nodelist": node_list,
        "duration": max(duration, 0.0),
    }
    run = _ran(listed, cluster)
    return None if run is None else replace(run, state=state)


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
