"""Reads past jobs from ``sacct --json``, as Slurm 21.08 to 26.05 write it.

Each job and step becomes a record of sacct's columns, which ``sacct`` reads. Versions differ in
their numbers (``5`` or ``{"set": true, "infinite": false, "number": 5}``) and states (``"FAILED"``
or ``["FAILED"]``). Times are Unix seconds. Memory is MiB in allocations and requests, and bytes in
what steps used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from berth.pilot import progress
from berth.pilot.errors import DocumentError
from berth.plugin.scheduler.past_jobs import ReadJobs, Unreadable
from berth.plugin.slurm.records import Record
from berth.plugin.slurm.sacct import RecordReading

HINT = "write it with: sacct -a --json -S 2026-10-01 > jobs.json"
_SHOWN = 80
_USED = {
    "TRESUsageInMax": ("requested", "max"),
    "TRESUsageInAve": ("requested", "average"),
    "TRESUsageInTot": ("requested", "total"),
    "TRESUsageOutTot": ("consumed", "total"),
}
"""Where a step's JSON has sacct's columns of what it used."""

_UNSET = frozenset((2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2))
"""Slurm's INFINITE and NO_VAL, which older versions write as numbers."""


def read_sacct_json(text: str, cluster: str, *, source: str) -> ReadJobs:
    """Return the jobs that ran. Raises DocumentError where the text is no such JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(source, f"is not JSON: {error}", hint=HINT) from None
    jobs = data.get("jobs") if isinstance(data, dict) else None
    if not isinstance(jobs, list):
        raise DocumentError(source, "has no list of jobs", hint=HINT)
    reading = RecordReading(cluster, source, utc=True)
    for number, job in enumerate(progress.steps("jobs read", jobs), 1):
        try:
            records = list(_records(job))
        except Unreadable as error:
            reading.read.refuse(number, str(job)[:_SHOWN], error)
        except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            why = f"a field is not as sacct writes it ({type(error).__name__})"
            reading.read.refuse(number, str(job)[:_SHOWN], why)
        else:
            for record in records:
                reading.take(number, str(job)[:_SHOWN], record)
    return reading.done()


def _records(job: Any) -> Iterator[Record]:
    if not isinstance(job, dict):
        raise Unreadable("a job is not an object")
    times = job.get("time")
    if not isinstance(times, dict) or "state" not in job:
        raise Unreadable("it has no times or no state: is it of squeue?")
    job_id = _job_id(job)
    tres = job.get("tres") or {}
    asked, allocated = tres.get("requested") or [], tres.get("allocated") or []
    comment = job.get("comment") or {}
    states = job["state"]["current"]
    limit = _number(times.get("limit"))
    of = str(job.get("cluster") or (job.get("association") or {}).get("cluster") or "")
    yield {
        "Cluster": of,
        "JobID": job_id,
        "JobIDRaw": str(_number(job["job_id"])),
        "User": str((job.get("association") or {}).get("user") or job.get("user") or ""),
        "Account": str(job.get("account") or ""),
        "Partition": str(job.get("partition") or ""),
        "State": str(states if isinstance(states, str) else states[0]),
        "Submit": _moment(times.get("submission")),
        "Start": _moment(times.get("start")),
        "End": _moment(times.get("end")),
        "ElapsedRaw": str(_number(times.get("elapsed")) or 0),
        "TimelimitRaw": "" if limit is None else str(limit),
        "AllocCPUS": _count(allocated, "cpu"),
        "NNodes": str(_number(job.get("allocation_nodes")) or _count(allocated, "node")),
        "AllocTRES": _tres_text(allocated, mib=True),
        "ReqMem": _asked_memory(asked, job.get("required") or {}),
        "NodeList": str(job.get("nodes") or ""),
        "TotalCPU": _processor_time(times.get("total")),
        "AdminComment": str(comment.get("administrator") or ""),
        "Comment": str(comment.get("job") or ""),
        "SubmitLine": str(job.get("submit_line") or ""),
        "JobName": str(job.get("name") or ""),
    }
    for step in job.get("steps") or []:
        yield {"Cluster": of, **_step(job_id, step)}


def _step(job_id: str, step: Any) -> Record:
    tres, times = step.get("tres") or {}, step.get("time") or {}
    name = str((step.get("step") or {}).get("id") or "").rpartition(".")[2]
    used = {
        column: _tres_text((tres.get(above) or {}).get(key) or [], mib=False)
        for column, (above, key) in _USED.items()
    }
    return {
        "JobID": f"{job_id}.{name}",
        "NNodes": str(_number((step.get("nodes") or {}).get("count")) or ""),
        "NodeList": str((step.get("nodes") or {}).get("range") or ""),
        "NTasks": str(_number((step.get("tasks") or {}).get("count")) or ""),
        "Start": _moment(times.get("start")),
        "End": _moment(times.get("end")),
        "ElapsedRaw": str(_number(times.get("elapsed")) or 0),
        "MaxRSS": _count((tres.get("requested") or {}).get("max") or [], "mem"),
        "AllocTRES": _tres_text(tres.get("allocated") or [], mib=True),
        **used,
    }


def _job_id(job: Mapping[str, Any]) -> str:
    """Return a job's id as sacct prints it: ``12``, ``12_3`` (array) or ``12+1`` (component)."""
    array, het = job.get("array") or {}, job.get("het") or {}
    array_id, task = _number(array.get("job_id")), _number(array.get("task_id"))
    if array_id and task is not None:
        return f"{array_id}_{task}"
    if array_id and array.get("task"):
        return f"{array_id}_[{array['task']}]"
    het_id, offset = _number(het.get("job_id")), _number(het.get("job_offset"))
    if het_id and offset is not None:
        return f"{het_id}+{offset}"
    number = _number(job["job_id"])
    if number is None:
        raise Unreadable("it has no id")
    return str(number)


def _number(value: Any) -> int | None:
    """Return a whole number in either form; None: not set, or infinite."""
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise Unreadable(f"{str(value)[:30]!r} is not a whole number")
    return None if value in _UNSET else int(value)


def _moment(value: Any) -> str:
    return str(_number(value) or "Unknown")


def _count(tres: Sequence[Mapping[str, Any]], kind: str) -> str:
    counts = (_number(each.get("count")) for each in tres if each.get("type") == kind)
    return str(next((count for count in counts if count is not None), ""))


def _tres_text(tres: Sequence[Mapping[str, Any]], *, mib: bool) -> str:
    """Return trackable resources as sacct's text: ``cpu=4,mem=500M,gres/gpu:a100=1``."""
    parts = []
    for each in tres:
        count, name = _number(each.get("count")), each.get("name")
        if count is None or count < 0:
            continue
        kind = f"{each.get('type')}/{name}" if name else str(each.get("type"))
        parts.append(f"{kind}={count}{'M' if mib and kind == 'mem' else ''}")
    return ",".join(parts)


def _asked_memory(asked: Sequence[Mapping[str, Any]], required: Mapping[str, Any]) -> str:
    """Return ReqMem: of the whole job, else per node (n) or per core (c)."""
    whole = _count(asked, "mem")
    if whole not in {"", "0"}:
        return f"{whole}M"
    for key, form in (("memory_per_node", "Mn"), ("memory_per_cpu", "Mc")):
        memory = _number(required.get(key))
        if memory:
            return f"{memory}{form}"
    return ""


def _processor_time(total: Any) -> str:
    """Return processor time as sacct's ``H:MM:SS.ffffff``; empty: none is recorded."""
    if not isinstance(total, Mapping):
        return ""
    seconds, micro = _number(total.get("seconds")) or 0, _number(total.get("microseconds")) or 0
    if seconds <= 0 and micro <= 0:
        return ""
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micro:06}"
