"""Reads running and pending jobs with ``flux jobs``, and parses job ids in every form of RFC 19."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.pilot.units import whole_number
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import ANONYMOUS
from berth.plugin.scheduler import PresentJob
from berth.plugin.scheduler.host_lists import hostlist

_F58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_DOTTED = re.compile(r"(?:job\.)?((?:[0-9a-fA-F]{4}\.){3}[0-9a-fA-F]{4})")
_LARGEST = 2**64


def job_number(text: str) -> int | None:
    """Return a job id as a number, from ``42``, ``ƒ2oMJKr3``, ``f2oMJKr3``, ``0x2a`` or
    ``0000.0000.0000.002a``; None: the text is no job id.
    """
    number: int | None = None
    dotted = _DOTTED.fullmatch(text)
    if dotted is not None:
        number = int(dotted[1].replace(".", ""), 16)
    elif _HEX.fullmatch(text):
        number = int(text, 16)
    elif text.isdecimal():
        number = whole_number(text)
    elif text[:1] in ("ƒ", "f") and 1 < len(text) <= 13 and all(c in _F58 for c in text[1:]):
        number = 0
        for letter in text[1:]:
            number = number * len(_F58) + _F58.index(letter)
    return number if number is not None and number < _LARGEST else None


def job_name(number: int) -> str:
    """Return the id under which Berth stores a job: its number in base 58, with ``f`` for ``ƒ``."""
    letters = ""
    while number:
        number, digit = divmod(number, len(_F58))
        letters = _F58[digit] + letters
    return f"f{letters or _F58[0]}"


_TIMEOUT_S = 60.0
HELD = 0
"""The urgency of a held job."""
_DEPENDS = "DEPEND"
_BEFORE_TURN = (_DEPENDS, "PRIORITY")
_ENDS = ("after-finish", "after-success", "after-failure", "after-except")
"""Dependencies on the end of another job (``after-success=ƒ2oMJKr3``)."""


def ask() -> tuple[PresentJob, ...]:
    """Return all running and pending jobs. Raises SchedulerError or ToolMissing."""
    words = ("jobs", "-A", "--json", "--count=0", "--filter=pending,running")
    return parse(commands.run(*words, timeout_s=_TIMEOUT_S))


def parse(text: str) -> tuple[PresentJob, ...]:
    """Parse the output of ``flux jobs --json``. Raises SchedulerError where it cannot be read."""
    try:
        parsed_jobs = tuple((_job(job), job) for job in commands.listed_jobs(text))
        ids = {job_number(present.job_id): present.job_id for present, _ in parsed_jobs}
        return tuple(_after(present, job, ids) for present, job in parsed_jobs)
    except commands.UNEXPECTED:
        raise SchedulerError(f"flux jobs answered something unreadable: {text[:80]!r}") from None


def _job(job: Mapping[str, Any]) -> PresentJob:
    state = str(job["state"])
    running = state in ("RUN", "CLEANUP")
    urgency = job.get("urgency", 16)
    return PresentJob(
        job_id=str(job.get("jobid") or job["id"]),
        user=str(job.get("username") or job["userid"]),
        queues=(str(job.get("queue") or ANONYMOUS),),
        running=running,
        cores=max(1, int(job.get("ncores") or job.get("ntasks") or 1)),
        submit_s=_finite(job["t_submit"]),
        may_start=running or (urgency != HELD and state not in _BEFORE_TURN),
        account=str(job.get("bank") or ""),
        name=str(job.get("name") or ""),
        nodes=max(1, int(job.get("nnodes") or 1)),
        gpus=int(job.get("ngpus") or 0),
        node_names=tuple(hostlist(job["nodelist"])) if running and job.get("nodelist") else (),
        priority=_finite(job.get("priority") or 0),
        time_limit_s=_finite(job.get("duration") or 0) or None,
        start_s=_finite(job["t_run"]) if running else None,
    )


def _after(
    present: PresentJob, job: Mapping[str, Any], ids: Mapping[int | None, str]
) -> PresentJob:
    """Return the job with the jobs it depends on, where those dependencies alone delay it;
    otherwise return the job unchanged.
    """
    waits_for = job.get("dependencies") or ()
    if job["state"] != _DEPENDS or job.get("urgency") == HELD or not waits_for:
        return present
    after = []
    for dependency in waits_for:
        kind, _, text = str(dependency).partition("=")
        number = job_number(text)
        if kind not in _ENDS or number is None or number not in ids:
            return present
        after.append(ids[number])
    return replace(present, may_start=True, after=tuple(after))


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)
