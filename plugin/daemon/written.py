"""A decision as the store keeps it: columns, and compact JSON of what explains it.

Runs in the recorder's thread, but on the same interpreter as the answers: what is spent here is
missing there. Hence formatting instead of an encoder for the long part.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict

from berth.pilot.bounded import BoundedCache
from berth.plugin.daemon.answered import Answered
from berth.plugin.history.matching import Described
from berth.plugin.history.reading import LONGEST_NAME
from berth.plugin.store.records import DecisionRecord
from berth.policies.codes import Code
from berth.policies.values import Decision, Makespan, Ranked, Request, TaskArray
from berth.predictor.core.prediction import Interval, MemoryUse

_IN_FULL = 5
"""So many of the best candidates are kept with all their figures."""
_THREE = "[%.6g,%.6g,%.6g]"
_FULL = (
    '{"candidate":%s,"platform":%s,"nodes":%d,"cores":%d,"gpus":%d,"score":%.9g,'
    '"runtime_s":[%.6g,%.6g,%.6g],"speedup":%s,"host_memory_bytes":%s,'
    '"gpu_memory_bytes":%s,"cost":%s,"basis":%s,'
    '"warning":%s,"source":%s}'
)
_REQUEST = (
    '{"nodes":%d,"tasks":%d,"cpus_per_task":%d,"gpus":%d,"memory_bytes_per_node":%s,'
    '"wants_placement":%s,"pinned":%s,"features":%s,"gres":%s,"qos":%s,"time_limit_s":%s,'
    '"size":%s,"array_tasks":%d,"allowed_queues":%s}'
)
_MAKESPAN = ',"makespan":{"tasks":%d,"at_once":%d,"wait_s":%.6g,"seconds":%.6g}}'
_SHORT = '{"candidate":%s,"platform":%s,"score":%.9g}'
_EXCLUDED = '{"candidate":%s,"platform":%s,"code":%s,"excluded":%s%s}'
_PREDICTED = ',"predicted_s":[%.4g,%.4g,%.4g]'
"""Of a place that is ruled out: what people may read, never what was acted on (``runtime_s``)."""
_NO_CODE_FOR_IT = frozenset({Code.CANNOT_RUN, Code.WRONG_ARCHITECTURE, Code.INSTRUCTION_SET})
"""A program that cannot run there takes no time there, whatever is predicted of its like."""
_REMEMBERED = 512
_ROWS_REMEMBERED = 2_048
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


class Writer:
    """Makes records; remembers the explanation of decisions that come again and again."""

    def __init__(self, host: str) -> None:
        self._host = host
        # By identity, with the thing itself to keep that identity taken: policies give the same
        # ranking again for the same shape of job, whoever submits it, and in others its rows.
        self._rankings: BoundedCache[int, tuple[tuple[Ranked, ...], str]] = BoundedCache(
            _REMEMBERED
        )
        self._requests: BoundedCache[int, tuple[Request, str]] = BoundedCache(_REMEMBERED)
        self._rows: BoundedCache[int, tuple[Ranked, str]] = BoundedCache(_ROWS_REMEMBERED)
        """Those with all their figures."""

    def record(self, a: Answered) -> DecisionRecord:
        """One decision as a row of the store."""
        request, decision = a.request, a.decision
        known = self._requests.get(id(request))  # an answer that is given again has the same
        if known is None:
            known = self._requests.put(id(request), (request, request_json(request)))
        asked = known[1]
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
            workload=request.workload,
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
            edits=_edits(tuple(a.changes.items())) if a.changes else "{}",
            ranked="[]" if decision is None else self._ranked(decision),
        )

    def _ranked(self, decision: Decision) -> str:
        """The alternatives as compact JSON: the best few in full, the others why they are not."""
        found = self._rankings.get(id(decision.ranked))
        if found is not None and decision.explored is None:
            return found[1]
        rows = [self._row(row, i < _IN_FULL) for i, row in enumerate(decision.ranked)]
        if decision.explored is not None:
            explored = json.dumps(asdict(decision.explored), separators=(",", ":"))
            rows[0] = f'{rows[0][:-1]},"explored":{explored}}}'
            return f"[{','.join(rows)}]"
        text = f"[{','.join(rows)}]"
        self._rankings.put(id(decision.ranked), (decision.ranked, text))
        return text

    def _row(self, row: Ranked, among_best: bool) -> str:
        if row.score is None:
            return _excluded(row)
        if not among_best:
            return _SHORT % (_quoted(row.candidate), _quoted(row.platform), row.score)
        found = self._rows.get(id(row))
        return self._rows.put(id(row), (row, _full(row)))[1] if found is None else found[1]


def clean(text: str, longest: int = 256) -> str:
    """Text from a job as every database and log takes it: no NUL, no control characters."""
    text = text[:longest]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _full(r: Ranked) -> str:
    assert r.runtime_s is not None and r.score is not None  # noqa: PT018, S101 - it was ranked
    t, held = r.runtime_s, r.resources
    memory = r.memory or MemoryUse()
    text = _FULL % (
        _quoted(r.candidate),
        _quoted(r.platform),
        held.nodes,
        held.cores,
        held.gpus,
        r.score,
        t.low,
        t.mid,
        t.high,
        _three(r.speedup),
        _three(memory.host_bytes),
        _three(memory.gpu_bytes),
        "null" if r.cost is None else f"{r.cost:.6g}",
        _quoted(r.basis),
        _quoted(r.warning),
        _quoted(r.source),
    )
    return text if r.makespan is None else text[:-1] + _makespan(r.makespan)


def _makespan(m: Makespan) -> str:
    return _MAKESPAN % (m.tasks, m.at_once, m.wait_s, m.seconds)


def _excluded(r: Ranked) -> str:
    return _EXCLUDED % (
        _quoted(r.candidate),
        _quoted(r.platform),
        _quoted(r.code),
        _encode(r.excluded),
        ""
        if r.runtime_s is None or r.code in _NO_CODE_FOR_IT
        else _PREDICTED % (r.runtime_s.low, r.runtime_s.mid, r.runtime_s.high),
    )


def _three(interval: Interval | None) -> str:
    return "null" if interval is None else _THREE % (interval.low, interval.mid, interval.high)


@functools.lru_cache(maxsize=4_096)
def _quoted(text: str | tuple[str, ...] | None) -> str:
    """JSON of one of the few texts, or lists of them, that come again and again."""
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
    r, q = request.resources, request
    text = _REQUEST % (
        r.nodes,
        r.tasks,
        r.cpus_per_task,
        r.gpus,
        _number(r.memory_bytes_per_node),
        "true" if q.wants_placement else "false",
        _quoted(q.pinned),
        _quoted(q.features),
        _quoted(q.gres),
        _quoted(q.qos),
        _number(q.time_limit_s),
        _number(q.size),
        q.array_tasks,
        _sorted(q.allowed_queues),
    )
    return text if q.array is None else text[:-1] + _array(q.array)


def _array(array: TaskArray) -> str:
    """The rest of a request that is an array: what may run at a time, and sizes that differ."""
    at_once = "null" if array.at_once is None else array.at_once
    sizes = f',"task_sizes":{_encode(array.sizes)}' if array.sizes else ""
    return f',"array_at_once":{at_once}{sizes}}}'


def _number(value: float | None) -> str:
    return "null" if value is None else repr(value)


@functools.lru_cache(maxsize=256)
def _sorted(names: frozenset[str] | None) -> str:
    return "null" if names is None else _encode(sorted(names))


@functools.lru_cache(maxsize=1_024)
def _edits(changes: tuple[tuple[str, str | int], ...]) -> str:
    return _encode(dict(changes))
