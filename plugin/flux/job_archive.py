"""Jobs from an archive of Flux's: the table ``jobs`` of ``job-archive`` and of flux-accounting.

Both are SQLite files with a row for each job that ended: its times, its resource set (R, RFC 20)
and its jobspec (RFC 25), which names the jobs that it waited for. Ids are numbers here.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError, SchedulerError
from berth.plugin.flux.frobnicator import at
from berth.plugin.flux.job_ids import job_number
from berth.plugin.flux.outcomes import parse_outcomes
from berth.plugin.history.reading import SINGLETON, Read, Unreadable, checked_times, name_of
from berth.plugin.scheduler.host_lists import idset
from berth.plugin.store.records import PastJobRecord

NEEDED = ("id", "userid", "t_submit", "t_run", "t_inactive", "R", "jobspec")
_MORE = ("t_cleanup", "eventlog", "bank")
_ENDS = ("afterany", "afterok", "afternotok", "afterexcept")
_NO_JOB = ("begin-time",)
"""Schemes that wait for no other job, and are over when the job runs."""
_FAULTS = (ValueError, LookupError, TypeError, AttributeError, RecursionError, SchedulerError)


def read_archive(file: Path, cluster: str) -> Read:
    """Every job that ran. Raises DocumentError where the file has no such table."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            there = {str(row[1]) for row in database.execute("PRAGMA table_info(jobs)")}
            missing = [name for name in NEEDED if name not in there]
            if missing:
                raise DocumentError(
                    file, f"has no table of Flux's jobs: it lacks {', '.join(missing)}"
                )
            columns = [*NEEDED, *(name for name in _MORE if name in there)]
            # Names are those above, no text of anybody's.
            asked = f"SELECT {', '.join(columns)} FROM jobs ORDER BY t_submit"  # noqa: S608 # nosec B608
            return _read(columns, database.execute(asked), cluster)
    except sqlite3.Error as error:
        raise DocumentError(file, f"is a database that cannot be read: {error}") from None


def _read(columns: Sequence[str], rows: Iterable[Sequence[Any]], cluster: str) -> Read:
    read = Read()
    for number, values in enumerate(rows, 1):
        row = dict(zip(columns, values, strict=True))
        try:
            job, spec = _job(row, cluster)
        except Unreadable as error:
            read.refuse(number, str(values)[:200], error)
            continue
        if job is None:
            read.not_ended += 1
            continue
        read.add(job)
        note_dependencies(job.job_id, spec, read)
    return read


def note_dependencies(job_id: str, jobspec: Mapping[str, Any], read: Read) -> None:
    """Whom a job waited for, by its jobspec."""
    after: list[str] = []
    found = at(jobspec, "attributes", "system", "dependencies")
    for one in found if isinstance(found, list) else ():
        scheme, value = (str(at(one, key) or "") for key in ("scheme", "value"))
        number = job_number(value)
        if scheme in _ENDS and number is not None:
            after.append(str(number))
        elif scheme == SINGLETON:
            after.append(SINGLETON)
        elif scheme not in _NO_JOB:
            read.not_followed += 1
    if after:
        read.after[job_id] = tuple(after)


def _job(row: Mapping[str, Any], cluster: str) -> tuple[PastJobRecord | None, Mapping[str, Any]]:
    number = job_number(str(row["id"]).strip())
    if number is None:
        raise Unreadable("no id")
    submit_s, start_s = _number(row, "t_submit"), _number(row, "t_run")
    end_s = _number(row, "t_cleanup") or _number(row, "t_inactive")
    if not start_s or not end_s:
        return None, {}
    elapsed_s = checked_times(submit_s, start_s, end_s, None)
    spec = _object(row, "jobspec")
    try:
        nodes, cores, gpus = _held(_object(row, "R"))
        system = at(spec, "attributes", "system") or {}
        duration = float(system.get("duration") or 0)
        name = at(spec, "attributes", "system", "job", "name") or _command(spec)
        state = _state(str(number), row)
    except _FAULTS:
        raise Unreadable("its resource set, jobspec or eventlog is not one of Flux's") from None
    return PastJobRecord(
        cluster=cluster,
        job_id=str(number),
        user=f"uid:{row['userid']}"[:64],
        account=name_of(str(row.get("bank") or system.get("bank") or "")),
        name=name_of(str(name)),
        queue=name_of(str(system.get("queue") or "")),
        state=state,
        submit_s=start_s if submit_s is None else submit_s,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        cores=max(cores, 1),
        nodes=max(nodes, 1),
        gpus=gpus or None,
        time_limit_s=duration if duration > 0 else None,
    ), spec


def _held(resource_set: Mapping[str, Any]) -> tuple[int, int, int]:
    """Nodes, cores and GPUs."""
    nodes = cores = gpus = 0
    for entry in resource_set["execution"]["R_lite"]:
        ranks, children = len(idset(entry["rank"])), entry["children"]
        nodes += ranks
        cores += ranks * len(idset(children.get("core", "")))
        gpus += ranks * len(idset(children.get("gpu", "")))
    return nodes, cores, gpus


def _command(spec: Mapping[str, Any]) -> str:
    """The program that a job without a name runs, as Flux names it."""
    return str(spec["tasks"][0]["command"][0]).rpartition("/")[2] if spec.get("tasks") else ""


def _state(job_id: str, row: Mapping[str, Any]) -> str:
    """From the eventlog; an archive without one does not say how a job ended."""
    if not row.get("eventlog"):
        return "completed"
    return parse_outcomes({job_id: {"eventlog": row["eventlog"], "jobspec": "{}"}})[job_id].state


def _object(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    try:
        found = json.loads(row[key])
    except (ValueError, TypeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unreadable(f"{key} is no JSON object")
    return found


def _number(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{key} is not a number")
    return float(value)
