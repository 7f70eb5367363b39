"""What ``berth profile list`` and ``show`` say of a record: a profile, or a workload of slices."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError
from berth.pilot.profile import Profile
from berth.pilot.units import format_seconds
from berth.plugin.store.records import ProfileRecord
from berth.predictor.core.workload import schema_of

SLICE_WORKLOAD = "berth.slice-workload/1"


class Summary(NamedTuple):
    """A row of the list; None: not known."""

    measured_on: str
    runtime_s: float | None
    memory_bytes: float | None


def summary(record: ProfileRecord) -> Summary:
    """Of whatever the record holds; ``?`` where it cannot be read."""
    if schema_of(record.document) == SLICE_WORKLOAD:
        data: dict[str, Any] = json.loads(record.document)
        need = data.get("memory") or {}
        most = need.get("reserved_bytes") or need.get("high_bytes")
        return Summary(f"whole {data.get('gpu')}", data.get("runtime_s"), most)
    try:
        found = parse_json(record.document, Profile, source=record.name)
    except DocumentError:
        return Summary("?", None, None)
    runtime_s = None if found.runtime is None else found.runtime.median_s
    return Summary(found.platform, runtime_s, found.peak_memory_bytes)


def of_profile(measured: Profile) -> list[str]:
    """The first lines about a profile."""
    runtime = measured.runtime
    return [
        f"{measured.name}: {' '.join(measured.workload.command)}",
        f"  measured on {measured.platform}, {measured.provenance.created}: "
        + (format_seconds(runtime.median_s) if runtime else "no runtime"),
        f"  runs on {', '.join(measured.runs_on.targets)} ({measured.runs_on.architecture})",
    ]


def of_workload(record: ProfileRecord) -> list[str]:
    """The same about a workload of slices."""
    found = summary(record)
    took = "an unknown time" if found.runtime_s is None else format_seconds(found.runtime_s)
    return [
        f"{record.name}: a workload of MIG slices",
        f"  measured on a {found.measured_on}; a job takes {took} there",
    ]
