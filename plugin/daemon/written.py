"""A decision as the store keeps it: columns, and compact JSON of what explains it.

Runs in the recorder's thread, but on the same interpreter as the answers: what is spent here is
missing there. Hence formatting instead of an encoder for the long part.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict

from berth.plugin.daemon.answered import Answered
from berth.plugin.history.matching import Described
from berth.plugin.history.reading import LONGEST_NAME
from berth.plugin.store.records import DecisionRecord
from berth.policies.values import Decision, Ranked, Request
from berth.predictor.core.prediction import Interval

_IN_FULL = 5
"""So many of the best candidates are kept with all their figures."""
_THREE = "[%.6g,%.6g,%.6g]"
_FULL = (
    '{"candidate":%s,"platform":%s,"nodes":%d,"cores":%d,"gpus":%d,"score":%.9g,'
    '"runtime_s":[%.6g,%.6g,%.6g],"speedup":%s,"memory_bytes":%s,"cost":%s,"basis":%s,'
    '"warning":%s,"source":%s}'
)
_SHORT = '{"candidate":%s,"platform":%s,"score":%.9g}'
_EXCLUDED = '{"candidate":%s,"platform":%s,"code":%s,"excluded":%s}'
_REMEMBERED = 256
_ROWS_REMEMBERED = 8_192
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


class Writer:
    """Makes records; remembers the explanation of decisions that come again and again."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._explained: dict[str, tuple[str, str]] = {}
        # By identity, with the row itself to keep that identity taken: policies give the same
        # rows again for the same shape of job.
        self._rows: dict[tuple[int, bool], tuple[Ranked, str]] = {}

    def record(self, a: Answered) -> DecisionRecord:
        """One decision as a row of the store."""
        request, decision = a.request, a.decision
        asked, ranked = self._explain(request, decision)
        if a.what is not None:
            asked = f'{asked[:-1]},"job":{_described(a.what)}}}'
        return DecisionRecord(
            id=a.id,
            time_s=a.time_s,
            host=self._host,
            scheduler=a.scheduler,
            user=clean(request.user, 128),
            account=clean(request.account, 128) if request.account else None,
            queue=clean(request.queue, 255) if request.queue else None,
            profile=request.profile,
            mode=a.mode.value,
            action=a.action,
            code=a.code,
            reason=clean(a.reason, 4_000),
            chosen=decision.chosen if decision else None,
            bundle=(decision.bundle or None) if decision else None,
            policy=decision.policy if decision else None,
            inputs_digest=decision.inputs_digest if decision else "",
            latency_us=min(a.latency_us, 2**31 - 1),
            request=asked,
            edits=_encode(a.changes) if a.changes else "{}",
            ranked=ranked,
        )

    def _explain(self, request: Request, decision: Decision | None) -> tuple[str, str]:
        if decision is None:
            return request_json(request), "[]"
        found = self._explained.get(decision.inputs_digest)
        if found is None:
            found = request_json(request), self._ranked(decision)
            if len(self._explained) >= _REMEMBERED:
                self._explained.clear()
            self._explained[decision.inputs_digest] = found
        return found

    def _ranked(self, decision: Decision) -> str:
        """The alternatives as compact JSON: the best few in full, the others why they are not."""
        rows = [self._row(row, i < _IN_FULL) for i, row in enumerate(decision.ranked)]
        if decision.explored is not None:
            explored = json.dumps(asdict(decision.explored), separators=(",", ":"))
            rows[0] = f'{rows[0][:-1]},"explored":{explored}}}'
        return "[" + ",".join(rows) + "]"

    def _row(self, row: Ranked, among_best: bool) -> str:
        in_full = among_best and row.score is not None
        found = self._rows.get((id(row), in_full))
        if found is not None:
            return found[1]
        text = _full(row) if in_full else _short(row)
        if len(self._rows) >= _ROWS_REMEMBERED:
            self._rows.clear()
        self._rows[id(row), in_full] = row, text
        return text


def clean(text: str, longest: int = 256) -> str:
    """Text from a job as every database and log takes it: no NUL, no control characters."""
    text = text[:longest]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _full(r: Ranked) -> str:
    assert r.runtime_s is not None and r.score is not None  # noqa: PT018, S101 - it was ranked
    t, held = r.runtime_s, r.resources
    speedup = "null" if r.speedup is None else _THREE % _bounds(r.speedup)
    memory = "null" if r.memory_bytes is None else _THREE % _bounds(r.memory_bytes)
    return _FULL % (
        _quoted(r.candidate),
        _quoted(r.platform),
        held.nodes,
        held.cores,
        held.gpus,
        r.score,
        t.low,
        t.mid,
        t.high,
        speedup,
        memory,
        "null" if r.cost is None else f"{r.cost:.6g}",
        _quoted(r.basis),
        _quoted(r.warning),
        _quoted(r.source),
    )


def _short(r: Ranked) -> str:
    if r.score is None:
        return _EXCLUDED % (
            _quoted(r.candidate),
            _quoted(r.platform),
            _quoted(r.code),
            _encode(r.excluded),
        )
    return _SHORT % (
        _quoted(r.candidate),
        _quoted(r.platform),
        r.score,
    )


def _bounds(interval: Interval) -> tuple[float, float, float]:
    return interval.low, interval.mid, interval.high


@functools.lru_cache(maxsize=4_096)
def _quoted(text: str | None) -> str:
    """JSON of one of the few texts that come again and again."""
    return _encode(text)


def _described(what: Described) -> str:
    """A job's program as JSON, without what is not known of it."""
    known = {
        "name": clean(what.name, LONGEST_NAME), "script": what.script,
        "arguments": what.arguments, "similar": what.similar,
    }  # fmt: skip
    return _encode({key: text for key, text in known.items() if text})


def request_json(request: Request) -> str:
    """The request as compact JSON, for the record of the decision."""
    r = request.resources
    return _encode(
        {
            "nodes": r.nodes,
            "tasks": r.tasks,
            "cpus_per_task": r.cpus_per_task,
            "gpus": r.gpus,
            "memory_bytes_per_node": r.memory_bytes_per_node,
            "wants_placement": request.wants_placement,
            "pinned": request.pinned,
            "features": request.features,
            "gres": request.gres,
            "qos": request.qos,
            "time_limit_s": request.time_limit_s,
            "size": request.size,
            "array_tasks": request.array_tasks,
            "allowed_queues": None
            if request.allowed_queues is None
            else sorted(request.allowed_queues),
        }
    )
