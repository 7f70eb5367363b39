"""The submit protocol: a request and its reply are one line of JSON each (docs/protocol.md).

``parse`` reads arbitrary bytes strictly and raises only Refusal, which says what is wrong. Unknown
keys are ignored, as a newer filter may send more. A reply holds the job's edits, its comment
(called stamp, which links the job to its decision later) and the user's message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from berth.plugin.daemon.stats import Streak, streak_in
from berth.policies.resources import (
    bytes_per_core_where_it_was,
    memory_form,
    own_cores_per_node,
)
from berth.policies.values import Decision, MemoryForm, Request, Resources

PROTOCOL_VERSION = 1
MAX_REQUEST_BYTES = 131_072
MAX_REPLY_BYTES = 16_384
MAX_SCRIPT_BYTES = 65_536
MAX_TEXT = 4_096
MAX_ITEMS = 4_096
_MAX_NUMBER = 2**53


class Refusal(Exception):
    """A request line that is invalid. ``str()`` is the reason, for the log and the reply."""


@dataclass(slots=True)
class SubmittedJob:
    """The job as the filter described it. None or an empty list: not given."""

    uid: int | None = None
    user: str | None = None
    account: str | None = None
    default_account: str | None = None
    """The default account of the job's user, sent where the job names no account."""
    qos: str | None = None
    reservation: str | None = None
    name: str | None = None
    queue: str | None = None
    queues: tuple[str, ...] | None = None
    comment: str | None = None
    workload: str | None = None
    mode: str | None = None
    script: str | None = None
    arguments: tuple[str, ...] | None = None
    script_path: str | None = None
    """The script's path as its user wrote it."""
    modules: str | None = None
    """The environment modules that were loaded, separated by colons."""
    kind: str | None = None
    nodes: int | None = None
    max_nodes: int | None = None
    tasks: int | None = None
    cpus_per_task: int | None = None
    tasks_per_node: int | None = None
    gpus: int | None = None
    memory_mib_per_node: int | None = None
    memory_mib_per_cpu: int | None = None
    memory_mib_per_gpu: int | None = None
    cpus_per_gpu: int | None = None
    min_cpus_per_node: int | None = None
    exclusive: int | None = None
    prefer: str | None = None
    gres: str | None = None
    features: str | None = None
    time_limit_min: int | None = None
    time_limit_s: int | None = None
    array: str | None = None
    het: int | None = None
    scheduler_since_s: int | None = None
    script_unread: int | None = None
    """1: the job has a script whose text cannot be sent (too long, or not UTF-8)."""
    requeue: int | None = None
    """0: never requeue the job; 1: the scheduler may; None: the submitter did not say."""
    pinned: tuple[str, ...] | None = None


@dataclass(slots=True)
class Ask:
    """One valid request of the submit protocol."""

    op: str
    scheduler: str
    job: SubmittedJob
    names_its_user: bool = False
    """True: the request has the user's name, so that it need not be looked up from the uid."""
    streak: Streak | None = None
    """Consecutive earlier submissions that got no answer, as the filter counted them."""


_KINDS = (None, "batch", "interactive")
_OPS = ("decide", "ping", "stats")


def _refuse_constant(name: str) -> NoReturn:
    raise Refusal(f"{name} is not a number")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def parse(line: bytes) -> Ask:
    """Return the request on ``line``. Raises only Refusal, where the line is not a valid
    request."""
    if len(line) > MAX_REQUEST_BYTES:
        raise Refusal(f"longer than {MAX_REQUEST_BYTES} bytes")
    try:
        # Job scripts may be in any encoding: bytes that are not UTF-8 become replacement
        # characters.
        message = _decode(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Refusal("not JSON") from None
    if type(message) is not dict:
        raise Refusal("not an object")
    if type(message.get("v")) is not int or message["v"] != PROTOCOL_VERSION:
        raise Refusal(f"not version {PROTOCOL_VERSION} of the protocol")
    op = message.get("op")
    if op not in _OPS:
        raise Refusal("op is not decide, ping or stats")
    if op != "decide":
        return Ask(op, "", SubmittedJob())
    scheduler = message.get("scheduler")
    if type(scheduler) is not str:
        raise Refusal("scheduler is not a name")
    job = message.get("job")
    if type(job) is not dict:
        raise Refusal("job is not an object")
    asked = _job(job)
    streak = streak_in(message["breaker"]) if "breaker" in message else None
    return Ask(op, scheduler, asked, asked.user is not None, streak)


def _job(described: dict[str, Any]) -> SubmittedJob:
    job = SubmittedJob()
    for key, value in described.items():
        read = _READERS.get(key)
        if read is not None and value is not None:
            setattr(job, key, read(key, value))
    if job.kind not in _KINDS:
        raise Refusal("job.kind is not batch or interactive")
    return job


def _text(key: str, value: Any) -> str:
    if type(value) is not str:
        raise Refusal(f"job.{key} is not a string")
    longest = MAX_SCRIPT_BYTES if key == "script" else MAX_TEXT
    if len(value) > longest:
        raise Refusal(f"job.{key} is longer than {longest} characters")
    return value


def _number(key: str, value: Any) -> int:
    if type(value) is float and value.is_integer():  # Lua has one kind of number
        value = int(value)
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise Refusal(f"job.{key} is not a whole number from 0 to 2^53")
    return value


def _list(key: str, value: Any) -> tuple[str, ...]:
    if value == {}:  # how Lua's cjson writes an empty table
        return ()
    if type(value) is not list or len(value) > MAX_ITEMS:
        raise Refusal(f"job.{key} is not a list of at most {MAX_ITEMS} strings")
    for item in value:
        if type(item) is not str or len(item) > MAX_TEXT:
            raise Refusal(f"job.{key} is not a list of strings")
    return tuple(value)


_READER_OF = {
    "str | None": _text,
    "int | None": _number,
    "tuple[str, ...] | None": _list,
}
_READERS: dict[str, Callable[[str, Any], object]] = {
    field.name: _READER_OF[str(field.type)] for field in fields(SubmittedJob)
}
"""The function that checks a key's value, by the type of the field."""


MAX_STAMP_BYTES = 512
_MAX_MESSAGE = 400
_MIB = 2**20
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode

Edits = dict[str, str | int]

KEEP_LINE = b'{"v":1,"action":"keep"}\n'
"""The reply that leaves a job unchanged, valid for every request."""


def edits(request: Request, decision: Decision) -> Edits:
    """Return the keys of the job that the decision changes, each only where it differs from the
    request.
    """
    edit = decision.edit
    if edit is None:
        return {}
    changes: Edits = {}
    if edit.queue is not None:
        changes["queue"] = edit.queue
    if edit.constraint is not None:
        changes["features"] = edit.constraint
    # The user's gres stays; at most the type of a slice is added to it.
    if edit.gres is not None and (request.gres is None or edit.adds_type):
        changes["gres"] = edit.gres
    if edit.resources is not None:
        changes.update(_shape(request, edit.resources))
        changes.update(_memory(request, edit.resources))
    if edit.time_limit_s is not None:
        changes["time_limit_min"] = int(-(-edit.time_limit_s // 60))
    return changes


def _shape(request: Request, held: Resources) -> Edits:
    """Return the nodes, tasks and cores that differ from the request."""
    asked = request.resources
    changes: Edits = {}
    if held.tasks != asked.tasks:
        changes["tasks"] = held.tasks
    if held.cpus_per_task != asked.cpus_per_task:
        changes["cpus_per_task"] = held.cpus_per_task
    # With GPUs, which are requested per node, or with any other change the node count must be
    # written; otherwise a job that named no node count may still run on any number of nodes.
    if held.nodes != asked.nodes and (asked.nodes or held.gpus or changes):
        changes["nodes"] = held.nodes
    return changes


def _memory(request: Request, held: Resources) -> Edits:
    """Return the memory that differs from the request, per node or per core as the job wrote it."""
    memory, asked = held.memory_bytes_per_node, request.resources
    form = memory_form(request)
    if memory is None or form is MemoryForm.GPU:  # per GPU: the GPUs stay
        return {}
    if form is MemoryForm.NODE:
        same = memory == asked.memory_bytes_per_node
        return {} if same else {"memory_mib_per_node": -(-memory // _MIB)}
    by_core = -(-memory // (own_cores_per_node(held) * _MIB))
    before = bytes_per_core_where_it_was(request)
    written = asked.memory_bytes_per_node is not None and before == by_core * _MIB
    return {} if written else {"memory_mib_per_cpu": by_core}


def stamp(
    decision_id: str,
    action: str,
    code: str,
    *,
    chosen: str | None,
    workload: str | None,
    bundle: str,
    slices: Sequence[str] = (),
    fit: str = "",
    use: str = "",
) -> str:
    """Return the text for the job's comment, at most 512 bytes.

    Its form is ``berth/1 id=... action=... code=... to=... workload=... bundle=... fit=...
    use=... slices=...``.
    """
    parts = [f"berth/1 id={decision_id} action={action} code={code}"]
    if chosen:
        parts.append(f"to={chosen}")
    if workload:
        parts.append(f"workload={workload}")
    if bundle:
        parts.append(f"bundle={bundle}")
    if fit:
        parts.append(f"fit={fit}")
    if use:
        parts.append(f"use={use}")
    if slices:
        parts.append(f"slices={','.join(slices)}")
    return " ".join(parts).encode("ascii", "replace")[:MAX_STAMP_BYTES].decode("ascii")


def parse_stamp(text: str) -> dict[str, str] | None:
    """Return the fields of a job comment that Berth wrote, by key; None: Berth did not write the
    text.
    """
    words = text.strip().split()
    if not words or words[0] != "berth/1":
        return None
    return dict(word.split("=", 1) for word in words[1:] if "=" in word)


def message(sentence: str, *, opt_out: str | None = None) -> str:
    """Return the one-line message for the user; ``opt_out``: how to have a job left unchanged."""
    line = " ".join(sentence.split())[:_MAX_MESSAGE]
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "?" for c in line)
    return f"{line} (opt out: {opt_out})" if opt_out else line


def reply(
    action: str,
    *,
    changes: Edits | None = None,
    stamp: str | None = None,
    message: str | None = None,
    decision: str | None = None,
    code: str | None = None,
    problem: str | None = None,
) -> bytes:
    """Return one reply line; a reply that would be too long becomes a plain "keep"."""
    fields: dict[str, object] = {"v": PROTOCOL_VERSION, "action": action}
    if changes:
        fields["edits"] = changes
    if stamp:
        fields["stamp"] = stamp
    if message:
        fields["message"] = message
    if decision:
        fields["decision"] = decision
    if code:
        fields["code"] = code
    if problem:
        fields["problem"] = problem
    line = _encode(fields).encode("ascii") + b"\n"
    return line if len(line) <= MAX_REPLY_BYTES else KEEP_LINE


def answer(fields: Mapping[str, object]) -> bytes:
    """Return the reply line to ``ping`` or ``stats``."""
    return _encode({"v": PROTOCOL_VERSION, "action": "keep", **fields}).encode("ascii") + b"\n"
