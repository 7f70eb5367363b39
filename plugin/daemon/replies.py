"""Writes the protocol's reply to a Decision: the job's edits, the job's comment, the user's
message.

The filter writes the comment text (called stamp) into the job's comment, so that the job can be
linked to its decision later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from berth.plugin.daemon.messages import MAX_REPLY_BYTES, PROTOCOL_VERSION
from berth.policies.resources import (
    bytes_per_core_where_it_was,
    memory_form,
    own_cores_per_node,
)
from berth.policies.values import Decision, MemoryForm, Request, Resources

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
