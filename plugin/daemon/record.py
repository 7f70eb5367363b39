"""A decision as the recorder receives it, its identifier, and its row of the store."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.pilot.version import VERSION
from berth.plugin.daemon.protocol import Edits
from berth.plugin.daemon.verdicts import Arm
from berth.plugin.history.matching import JobDescription
from berth.plugin.host import HOST, Clock
from berth.plugin.scheduler.past_jobs import LONGEST_NAME
from berth.plugin.store.records import DecisionRecord
from berth.policies.codes import Code
from berth.policies.values import Decision, Mode, Ranked, Request
from berth.predictor.core.prediction import Interval, MemoryUse

_IN_FULL = 5
"""The number of best candidates that are stored with all their figures."""
_CANNOT_RUN = frozenset({Code.CANNOT_RUN, Code.WRONG_ARCHITECTURE, Code.INSTRUCTION_SET})
"""A candidate with one of these codes cannot run the program, so its prediction, made from similar
platforms, is not stored.
"""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answered decision, queued until the recorder stores it."""

    id: str
    time_s: float
    scheduler: str
    mode: Mode
    action: str
    code: str
    reason: str
    request: Request
    decision: Decision | None
    changes: Edits
    latency_us: int
    described: JobDescription | None = None
    """Digests of a job that names no workload, so that its outcome helps to predict
    similar jobs.
    """
    arm: Arm | None = None


def record_of(answered: Answered, host: str) -> DecisionRecord:
    """Return the store's row for a decision that ``host`` answered."""
    request, decision, arm = answered.request, answered.decision, answered.arm
    asked = asked_of(request)
    if answered.described is not None:
        asked["job"] = _job(answered.described)
    return DecisionRecord(
        id=answered.id,
        time_s=answered.time_s,
        host=host,
        scheduler=answered.scheduler,
        user=clean(request.user, 128),
        account=clean(request.account, 128) if request.account else None,
        queue=clean(request.queue, 255) if request.queue else None,
        workload=request.workload,
        mode=answered.mode.value,
        action=answered.action,
        code=answered.code,
        reason=clean(answered.reason, 4_000),
        chosen=decision.chosen if decision else None,
        bundle=(decision.bundle or None) if decision else None,
        policy=decision.policy if decision else None,
        inputs_digest=decision.inputs_digest if decision else "",
        latency_us=min(answered.latency_us, 2**31 - 1),
        request=as_json(asked),
        edits=as_json(answered.changes),
        ground=None if decision is None or decision.ground is None else decision.ground.value,
        ranked=as_json([] if decision is None else _alternatives(decision)),
        arm=None if arm is None else arm.name,
        control=None if arm is None else arm.control.value,
        share=None if arm is None else arm.share,
        version=VERSION,
    )


def clean(text: str, longest: int = 256) -> str:
    """Return the first ``longest`` characters of text, with unprintable ones (NUL, control) as
    "?".
    """
    text = text[:longest]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def as_json(data: object) -> str:
    """Return ``data`` as JSON without blanks."""
    return json.dumps(data, separators=(",", ":"))


def asked_of(request: Request) -> dict[str, Any]:
    """Return the request's fields that are stored with a decision, as plain data."""
    held = request.resources
    asked: dict[str, Any] = {
        "nodes": held.nodes,
        "tasks": held.tasks,
        "cpus_per_task": held.cpus_per_task,
        "gpus": held.gpus,
        "memory_bytes_per_node": held.memory_bytes_per_node,
        "wants_placement": request.wants_placement,
        "pinned": request.pinned,
        "features": request.features,
        "gres": request.gres,
        "qos": request.qos,
        "time_limit_s": request.time_limit_s,
        "size": request.size,
        "array_tasks": request.array_tasks,
        "allowed_queues": _sorted(request.allowed_queues),
    }
    if request.array is not None:
        asked["array_at_once"] = request.array.at_once
        if request.array.sizes:
            asked["task_sizes"] = request.array.sizes
    return asked


def _job(described: JobDescription) -> Mapping[str, str]:
    """Return the job's name and digests by key, without the empty ones."""
    parts = {
        "name": clean(described.name, LONGEST_NAME),
        "script": described.script,
        "arguments": described.arguments,
        "similar": described.similar,
        "program": described.program,
    }
    return {key: text for key, text in parts.items() if text}


def _alternatives(decision: Decision) -> list[dict[str, Any]]:
    """Return one row per ranked candidate: all figures for the best ones, the reason for excluded
    ones.
    """
    rows = []
    for place, ranked in enumerate(decision.ranked):
        if ranked.score is None:
            rows.append(_excluded(ranked))
        elif place < _IN_FULL:
            rows.append(_in_full(ranked))
        else:
            rows.append({**_place(ranked), "score": _rounded(ranked.score, 9)})
    return rows


def _place(ranked: Ranked) -> dict[str, Any]:
    """Return the columns of every row: the candidate, and what a job would hold there."""
    held = ranked.resources
    return {
        "candidate": ranked.candidate,
        "platform": ranked.platform,
        "nodes": held.nodes,
        "cores": held.cores,
        "gpus": held.gpus,
    }


def _in_full(ranked: Ranked) -> dict[str, Any]:
    memory = ranked.memory or MemoryUse()
    row: dict[str, Any] = {
        **_place(ranked),
        "score": _rounded(ranked.score, 9),
        "runtime_s": _three(ranked.runtime_s),
        "speedup": _three(ranked.speedup),
        "ratio_log_width": _rounded(ranked.known_ratio_log_width, 4),
        "host_memory_bytes": _three(memory.host_bytes),
        "gpu_memory_bytes": _three(memory.gpu_bytes),
        "cost": _rounded(ranked.cost),
        "basis": ranked.basis,
        "warning": ranked.warning,
        "source": ranked.source,
    }
    return row | _makespan(ranked)


def _makespan(ranked: Ranked) -> dict[str, Any]:
    if ranked.makespan is None:
        return {}
    tasks, at_once, wait_s, seconds, _ = ranked.makespan
    return {
        "makespan": {
            "tasks": tasks, "at_once": at_once, "wait_s": _rounded(wait_s),
            "seconds": _rounded(seconds),
        }
    }  # fmt: skip


def _excluded(ranked: Ranked) -> dict[str, Any]:
    row: dict[str, Any] = {
        **_place(ranked),
        "code": ranked.code,
        "excluded": ranked.excluded,
    }
    if ranked.excluded is None:
        row["warning"] = ranked.warning
    if ranked.runtime_s is not None and ranked.code not in _CANNOT_RUN:
        # Shown to users only: ``runtime_s`` is absent, because no decision used this prediction.
        row["predicted_s"] = _three(ranked.runtime_s, 4)
    return row | _makespan(ranked)


def _three(interval: Interval | None, digits: int = 6) -> Sequence[float | None] | None:
    if interval is None:
        return None
    return [_rounded(value, digits) for value in (interval.low, interval.mid, interval.high)]


def _rounded(value: float | None, digits: int = 6) -> float | None:
    """Return the value rounded to ``digits`` significant digits."""
    return None if value is None else float(f"{value:.{digits}g}")


def _sorted(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, which lacks the letters that people mistake for digits."""
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]


class Identifiers:
    """Makes identifiers of 16 characters: 9 for milliseconds, 3 for a counter, 4 for the
    process."""

    def __init__(
        self, clock: Clock = HOST.clock, random: Callable[[int], int] = secrets.randbits
    ) -> None:
        self._clock = clock
        self._own = _encode(random(20), 4)
        self._count = random(15)
        self._last_ms = 0

    def next(self) -> str:
        """Return a new identifier, which sorts after the last one even if the clock was
        set back.
        """
        now_ms = max(self._last_ms, self._clock.time_ns() // 1_000_000)
        self._last_ms = now_ms
        self._count = (self._count + 1) % 32**3
        return _encode(now_ms, 9) + _encode(self._count, 3) + self._own


def _encode(value: int, length: int) -> str:
    text = ""
    for _ in range(length >> 1):
        text = _PAIRS[value & 1023] + text
        value >>= 10
    return _DIGITS[value & 31] + text if length & 1 else text
