"""From a Decision to the protocol's reply: which keys of the job change, the stamp, the message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from berth.plugin.daemon.messages import MAX_REPLY_BYTES, PROTOCOL_VERSION
from berth.policies.values import Decision, Request

MAX_STAMP_BYTES = 512
_MAX_MESSAGE = 400
_MIB = 2**20
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode

Edits = dict[str, str | int]

KEEP_LINE = b'{"v":1,"action":"keep"}\n'
"""The reply that is always right."""


def edits(request: Request, decision: Decision) -> Edits:
    """The keys that change, each only where it differs from what was asked."""
    edit = decision.edit
    if edit is None:
        return {}
    changes: Edits = {}
    if edit.queue is not None:
        changes["queue"] = edit.queue
    if edit.constraint is not None:
        changes["features"] = edit.constraint
    # What the user wrote stays; at most the type of a slice is added to it.
    if edit.gres is not None and (request.gres is None or edit.adds_type):
        changes["gres"] = edit.gres
    if edit.resources is not None:
        asked, held = request.resources, edit.resources
        if held.nodes != asked.nodes:
            changes["nodes"] = held.nodes
        if held.tasks != asked.tasks:
            changes["tasks"] = held.tasks
        if held.cpus_per_task != asked.cpus_per_task:
            changes["cpus_per_task"] = held.cpus_per_task
        memory = held.memory_bytes_per_node
        # Memory by core is another number as soon as the cores of a node are.
        if memory is not None and (
            memory != asked.memory_bytes_per_node or request.needs.memory_per_core
        ):
            changes["memory_mib_per_node"] = -(-memory // _MIB)
    if edit.time_limit_s is not None:
        changes["time_limit_min"] = int(-(-edit.time_limit_s // 60))
    return changes


def stamp(
    decision_id: str,
    action: str,
    code: str,
    *,
    chosen: str | None,
    profile: str | None,
    bundle: str,
    slices: Sequence[str] = (),
    fit: str = "",
) -> str:
    """``berth/1 id=... action=... code=... to=... profile=... bundle=... fit=... slices=...``.

    At most 512 bytes.
    """
    parts = [f"berth/1 id={decision_id} action={action} code={code}"]
    if chosen:
        parts.append(f"to={chosen}")
    if profile:
        parts.append(f"profile={profile}")
    if bundle:
        parts.append(f"bundle={bundle}")
    if fit:
        parts.append(f"fit={fit}")
    if slices:
        parts.append(f"slices={','.join(slices)}")
    return " ".join(parts).encode("ascii", "replace")[:MAX_STAMP_BYTES].decode("ascii")


def parse_stamp(text: str) -> dict[str, str] | None:
    """What a stamp says, by key; None where the text is none."""
    words = text.strip().split()
    if not words or words[0] != "berth/1":
        return None
    return dict(word.split("=", 1) for word in words[1:] if "=" in word)


def message(sentence: str, *, opt_out: str | None = None) -> str:
    """The one line for the user; ``opt_out``: how to leave a job alone that was changed."""
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
    """One reply line. A reply that would be too long becomes a plain keep."""
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
    """A reply to ``ping`` or ``stats``."""
    return _encode({"v": PROTOCOL_VERSION, "action": "keep", **fields}).encode("ascii") + b"\n"
