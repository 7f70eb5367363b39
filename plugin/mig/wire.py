"""What callers and the helper say to each other: one JSON line asked, JSON lines answered.

The caller sends one request. The helper answers any number of ``progress`` lines and then one
``result`` or ``error``, and closes. No path, program or environment is ever part of a request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import BerthError, UsageError
from berth.plugin.mig import errors
from berth.plugin.mig.apply import GpuPreview, Report
from berth.plugin.mig.inventory import ComputeInstance, Fleet, GpuRecord, InstanceRecord
from berth.plugin.mig.target import Target
from berth.policies.mig import Geometry, Instance, Layout, Media, SliceProfile

MAX_BYTES = 1024 * 1024
SCHEMA = "berth.mig-request/1"
_LISTS = ("destroy", "create", "keep", "busy")
_CLASSES = {
    kind.__name__: kind
    for kind in (
        BerthError, UsageError, errors.PlanRefused, errors.Busy, errors.Locked,
        errors.RolledBack, errors.Unfinished,
    )
}  # fmt: skip


class Request(Document):
    """What a caller may ask. Layouts as ``berth mig show`` prints them."""

    schema_: Literal["berth.mig-request/1"] = Field(default="berth.mig-request/1", alias="schema")
    command: Literal["inventory", "preview", "apply", "resume"]
    layouts: dict[str, str] = Field(default_factory=dict)
    expected: dict[str, str] | None = None
    source: str = Field(default="the plan", max_length=200)
    wait_s: float = Field(default=0.0, ge=0, le=86400)
    enable_mig: bool = False

    @property
    def target(self) -> Target:
        """Return the layouts as values. Raises UsageError."""
        expected = self.expected
        return Target(
            {gpu: Layout.parse(text) for gpu, text in self.layouts.items()},
            None if expected is None else {g: Layout.parse(t) for g, t in expected.items()},
            self.source,
        )


def request(command: str, target: Target | None = None, **fields: Any) -> bytes:
    """Write one request as a line."""
    data: dict[str, Any] = {"schema": SCHEMA, "command": command, **fields}
    if target is not None:
        data["layouts"] = {gpu: str(layout) for gpu, layout in target.layouts.items()}
        data["source"] = target.source[:200]
        if target.expected is not None:
            data["expected"] = {gpu: str(layout) for gpu, layout in target.expected.items()}
    return json.dumps(data).encode() + b"\n"


def error_line(error: BerthError) -> dict[str, Any]:
    """Return an error as data."""
    kind = next((n for n, k in _CLASSES.items() if type(error) is k), None)
    kind = kind or ("UsageError" if isinstance(error, UsageError) else "BerthError")
    return {"kind": "error", "class": kind, "message": error.message, "hint": error.hint}


def to_error(line: Mapping[str, Any]) -> BerthError:
    """Return the error that a line describes."""
    kind = _CLASSES.get(str(line.get("class")), BerthError)
    hint = line.get("hint")
    return kind(str(line.get("message")), hint=None if hint is None else str(hint))


def preview_data(previews: tuple[GpuPreview, ...]) -> list[dict[str, Any]]:
    """Return previews as plain data; ``--json`` prints it, too."""
    return [
        {
            "gpu": p.uuid, "index": p.index, "name": p.name,
            **{k: [str(i) for i in getattr(p, k)] for k in _LISTS},
        }
        for p in previews
    ]  # fmt: skip


def to_previews(rows: Any) -> tuple[GpuPreview, ...]:
    """Read previews from plain data."""
    return tuple(
        GpuPreview(
            row["gpu"], row["index"], row["name"],
            *(Layout.parse(" ".join(row[k])).instances for k in _LISTS),
        )
        for row in rows
    )  # fmt: skip


def report_data(report: Report) -> dict[str, Any]:
    """Return a report as plain data; ``--json`` prints it, too."""
    return {
        "outcome": report.outcome, "id": report.id, "resumed": report.resumed,
        "gpus": preview_data(report.gpus),
    }  # fmt: skip


def to_report(data: Mapping[str, Any]) -> Report:
    """Read a report from plain data."""
    return Report(data["outcome"], data["id"], to_previews(data["gpus"]), data["resumed"])


def fleet_data(fleet: Fleet) -> list[dict[str, Any]]:
    """Return the fleet as plain data."""
    return [
        {
            "uuid": g.uuid, "index": g.index, "minor": g.minor, "name": g.name,
            "capable": g.capable, "enabled": g.enabled, "pending": g.pending,
            "geometry": None if g.geometry is None else [_profile(p) for p in g.geometry.profiles],
            "instances": [_instance(r) for r in g.instances], "pci_id": g.pci_id,
        }
        for g in fleet
    ]  # fmt: skip


def to_fleet(rows: Any) -> Fleet:
    """Read a fleet from plain data."""
    return tuple(
        GpuRecord(
            row["uuid"], row["index"], row["minor"], row["name"], row["capable"], row["enabled"],
            row["pending"], _geometry(row), tuple(map(_to_instance, row["instances"])),
            row["pci_id"],
        )
        for row in rows
    )  # fmt: skip


def _profile(p: SliceProfile) -> list[Any]:
    media = [p.media.nvdec, p.media.nvenc, p.media.jpeg, p.media.ofa]
    return [
        p.name, p.compute_slices, p.memory_slices, p.memory_bytes, list(p.placements),
        p.max_instances, p.profile_id, media, p.multiprocessors,
    ]  # fmt: skip


def _geometry(row: Mapping[str, Any]) -> Geometry | None:
    if row["geometry"] is None:
        return None
    profiles = [
        SliceProfile(name, compute, memory, size, tuple(starts), limit, number, Media(*media), sms)
        for name, compute, memory, size, starts, limit, number, media, sms in row["geometry"]
    ]
    return Geometry.from_profiles(str(row["name"]).removeprefix("NVIDIA "), profiles)


def _instance(r: InstanceRecord) -> list[Any]:
    compute = [[c.start, c.size, c.profile_id] for c in r.compute]
    return [
        r.instance.profile, r.instance.start, r.gi_id, r.profile_id, compute, r.whole,
        list(r.uuids), list(r.compute_ids), list(r.pids),
    ]  # fmt: skip


def _to_instance(row: Any) -> InstanceRecord:
    profile, start, gi_id, number, compute, whole, uuids, compute_ids, pids = row
    return InstanceRecord(
        Instance(start, profile), gi_id, number, tuple(ComputeInstance(*c) for c in compute),
        whole, tuple(uuids), tuple(compute_ids), tuple(pids),
    )  # fmt: skip
