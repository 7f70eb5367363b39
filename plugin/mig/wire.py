"""The protocol between callers and the MIG helper: one JSON line as request, JSON lines as answer.

The caller sends one request. The helper answers any number of ``progress`` lines and then one
``result`` or ``error``, and closes. No path, program or environment is ever part of a request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from berth.pilot.documents import Document
from berth.pilot.errors import BerthError, UsageError
from berth.plugin.mig import errors
from berth.plugin.mig.apply import ApplyReport, GpuPreview
from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.target import ApplyTarget
from berth.policies.mig import Layout

MAX_BYTES = 1024 * 1024
SCHEMA = "berth.mig-request/1"
FLEET: TypeAdapter[Fleet] = TypeAdapter(Fleet)
PREVIEWS: TypeAdapter[tuple[GpuPreview, ...]] = TypeAdapter(tuple[GpuPreview, ...])
REPORT: TypeAdapter[ApplyReport] = TypeAdapter(ApplyReport)
_CLASSES = {
    kind.__name__: kind
    for kind in (
        BerthError, UsageError, errors.PlanRefused, errors.Busy, errors.Locked,
        errors.RolledBack, errors.Unfinished,
    )
}  # fmt: skip


class HelperRequest(Document):
    """A caller's request to the MIG helper. Layouts are written as ``berth mig show`` prints
    them."""

    schema_: Literal["berth.mig-request/1"] = Field(default="berth.mig-request/1", alias="schema")
    command: Literal["inventory", "preview", "apply", "resume"]
    layouts: dict[str, str] = Field(default_factory=dict)
    expected: dict[str, str] | None = None
    source: str = Field(default="the plan", max_length=200)
    wait_s: float = Field(default=0.0, ge=0, le=86400)
    enable_mig: bool = False

    @property
    def target(self) -> ApplyTarget:
        """Return the requested layouts, parsed. Raises UsageError."""
        expected = self.expected
        return ApplyTarget(
            {gpu: Layout.parse(text) for gpu, text in self.layouts.items()},
            None if expected is None else {g: Layout.parse(t) for g, t in expected.items()},
            self.source,
        )


def request(command: str, target: ApplyTarget | None = None, **fields: Any) -> bytes:
    """Return one request as a JSON line."""
    data: dict[str, Any] = {"schema": SCHEMA, "command": command, **fields}
    if target is not None:
        data["layouts"] = {gpu: str(layout) for gpu, layout in target.layouts.items()}
        data["source"] = target.source[:200]
        if target.expected is not None:
            data["expected"] = {gpu: str(layout) for gpu, layout in target.expected.items()}
    return json.dumps(data).encode() + b"\n"


def error_line(error: BerthError) -> dict[str, Any]:
    """Return an error as data for the answer, with its class, message and hint."""
    kind = next((n for n, k in _CLASSES.items() if type(error) is k), None)
    kind = kind or ("UsageError" if isinstance(error, UsageError) else "BerthError")
    return {"kind": "error", "class": kind, "message": error.message, "hint": error.hint}


def to_error(line: Mapping[str, Any]) -> BerthError:
    """Return the error that an answer line describes, as an exception to raise."""
    kind = _CLASSES.get(str(line.get("class")), BerthError)
    hint = line.get("hint")
    return kind(str(line.get("message")), hint=None if hint is None else str(hint))
