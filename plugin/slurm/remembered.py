"""Jobs that slurmctld still remembers, from ``squeue --json``.

JSON, because no text of a user's can stand for another field there: with ``scontrol show job`` a
job name such as ``x UserId=root(0)`` or one with a line end can. Read job by job: a whole answer at
once would keep the interpreter from the daemon's answering thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler import Outcome, stamped_decision
from berth.plugin.slurm.records import gpus_in, gres
from berth.plugin.slurm.states import state_of

COMMAND = ("squeue", "-a", "-t", "all", "--json")
_MINUTE_S = 60.0
_decode = json.JSONDecoder(strict=False).raw_decode
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError)


def jobs_in(text: str) -> Iterator[Mapping[str, Any]]:
    """The objects of the answer's list ``jobs``. Raises SchedulerError where there is none."""
    try:
        position = _after(text, 0, "{")
        while text[position] != "}":
            key, position = _decode(text, position)
            position = _after(text, position, ":")
            if key == "jobs":
                yield from _elements(text, position)
                return
            _, position = _decode(text, position)
            position = _after(text, position, ",")
    except (ValueError, IndexError, RecursionError):
        raise SchedulerError(f"squeue answered something unreadable: {text[:80]!r}") from None
    raise SchedulerError("squeue answered without a list of jobs")


def _elements(text: str, position: int) -> Iterator[Mapping[str, Any]]:
    position = _after(text, position, "[")
    while text[position] != "]":
        job, position = _decode(text, position)
        position = _after(text, position, ",")
        yield job


def _after(text: str, position: int, mark: str) -> int:
    """The place of what follows ``mark``, which must be there unless it is a comma."""
    while text[position].isspace():
        position += 1
    if text[position] == mark:
        position += 1
    elif mark != ",":
        raise ValueError(mark)
    while text[position].isspace():
        position += 1
    return position


def outcome_of(job: Mapping[str, Any]) -> tuple[str, Outcome]:
    """A job's number, and what became of it under the name that its user knows (``7_2``).

    Raises SchedulerError where a field is not as Slurm writes it.
    """
    try:
        return _outcome(job)
    except _UNREADABLE as error:
        raise SchedulerError(
            f"squeue described a job unreadably: {type(error).__name__} {error}"[:300]
        ) from None


def _outcome(job: Mapping[str, Any]) -> tuple[str, Outcome]:
    number = _whole(job["job_id"])
    array, task = _whole(job.get("array_job_id")), _whole(job.get("array_task_id"))
    states = job["job_state"]
    start_s, end_s = _moment(job.get("start_time")), _moment(job.get("end_time"))
    status = state_of(str(states if isinstance(states, str) else states[0]))
    node_count = _whole(job.get("node_count"))
    minutes = _whole(job.get("time_limit"))
    tres = _text(job.get("tres_alloc_str")) or _text(job.get("tres_req_str"))
    user, comment = _text(job.get("user_name")), _text(job.get("admin_comment"))
    if number is None:
        raise ValueError("it has no number")
    return str(number), Outcome(
        job_id=f"{array}_{task}" if array and task is not None else str(number),
        state=status,
        queue=_text(job.get("partition")),
        elapsed_s=_elapsed_s(job, status, start_s, end_s),
        nodes=_text(job.get("nodes")),
        user=user or f"uid:{_whole(job.get('user_id'))}",
        decision=(stamp := stamped_decision(comment)),
        stamp_lost=stamp is None and comment != "",
        exit_status=_exit_status(job.get("exit_code")),
        submit_s=_moment(job.get("submit_time")),
        start_s=start_s,
        end_s=end_s,
        node_count=node_count,
        cores=_whole(job.get("cpus")),
        gpus=gpus_in(tres) or _requested_gpus(_text(job.get("tres_per_node")), node_count),
        time_limit_s=None if minutes is None else _MINUTE_S * minutes,
    )


def _whole(value: Any) -> int | None:
    """A number as 22.05 writes it, or as later ones do, with ``set`` and ``infinite`` beside it."""
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value["number"]
    if value is None or value == "":
        return None
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a count")
    return None if value in (0xFFFFFFFE, 0xFFFFFFFF) else value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _moment(value: Any) -> float | None:
    seconds = _whole(value)
    return float(seconds) if seconds else None


def _elapsed_s(
    job: Mapping[str, Any], state: str, start_s: float | None, end_s: float | None
) -> float:
    """Without the time that it was suspended."""
    until_s = time.time() if state == "running" else end_s
    if state == "pending" or start_s is None or until_s is None:
        return 0.0
    suspended_s, before_s = _moment(job.get("suspend_time")), _moment(job.get("pre_sus_time"))
    if suspended_s is None:
        return max(0.0, until_s - start_s)
    return (before_s or 0.0) + max(0.0, until_s - suspended_s)


def _exit_status(value: Any) -> int | None:
    """As a shell would say it, from a wait status or its parts."""
    if isinstance(value, Mapping):
        status, found = _whole(value.get("return_code")), value.get("signal") or {}
        signal = _whole(found.get("id", found.get("signal_id"))) or 0
    else:
        raw = _whole(value)
        status, signal = (None, 0) if raw is None else (raw >> 8 & 0xFF, raw & 0x7F)
    return 128 + signal if signal and not status else status


def _requested_gpus(by_node: str, nodes: int | None) -> int | None:
    """As asked by node: ``gres:gpu:h200:1``, or ``gres/gpu:h200:1``."""
    asked = by_node.replace("gres:", "").replace("gres/", "")
    return sum(gres(asked).values()) * (nodes or 1) or None
