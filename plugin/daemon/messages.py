"""Parses one line of the submit protocol strictly, into an Ask (a valid request) or a Refusal.

Accepts arbitrary bytes and raises only Refusal, which says what is wrong. Unknown keys are ignored,
as a newer filter may send more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from berth.plugin.daemon.filter_breaker import Streak, streak_in

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
class Job:
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
    job: Job
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
        return Ask(op, "", Job())
    scheduler = message.get("scheduler")
    if type(scheduler) is not str:
        raise Refusal("scheduler is not a name")
    job = message.get("job")
    if type(job) is not dict:
        raise Refusal("job is not an object")
    asked = _job(job)
    streak = streak_in(message["breaker"]) if "breaker" in message else None
    return Ask(op, scheduler, asked, asked.user is not None, streak)


def _job(described: dict[str, Any]) -> Job:
    job = Job()
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
    field.name: _READER_OF[str(field.type)] for field in fields(Job)
}
"""The function that checks a key's value, by the type of the field."""
