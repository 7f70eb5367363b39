"""Explains what a decision was based on, and what would make it better."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from berth.pilot.errors import DocumentError
from berth.pilot.units import format_seconds
from berth.plugin.store import DecisionRecord, Store
from berth.policies.codes import Ground
from berth.predictor.core.forecast import Forecast

_SENTENCES: Mapping[str, str] = {
    Ground.FIT: "based on fit: the places that take the job as written, the earliest start and the "
    "fastest nodes first; nothing usable was predicted of its time",
    Ground.KERNELS: "based on the ratio of benchmark kernels between kinds of nodes (berth site "
    "calibrate): no program's runs on two kinds are known yet",
    Ground.POPULATION: "based on the ratio of this site's programs between kinds of nodes, and on "
    "this program's runs if there are any",
    Ground.RUNS: "based on runs of this program, on this kind of nodes too",
    Ground.MEASURED: "based on a pilot of this program",
    Ground.DESCRIBED: "based on the description of the model that it runs",
}
_BETTER: Mapping[str, str] = {
    Ground.FIT: "better with: runs of it that Berth knows (berth jobs history import), or a pilot "
    "(berth pilot run -- CMD)",
    Ground.KERNELS: "better with: runs of programs on each kind of nodes (berth jobs history "
    "import), or a pilot (berth pilot run -- CMD)",
    Ground.POPULATION: "better with: runs of it on each kind of nodes, or a pilot (berth pilot run "
    "-- CMD)",
    Ground.RUNS: "better with: a pilot, where its input or size changes (berth pilot run -- CMD)",
}


def ground_sentences(store: object, decision: DecisionRecord | None) -> list[str]:
    """Return what a decision was based on, what would make it better, and what it would have been
    with the pilot that the store now has; empty where it chose no place."""
    ground = "" if decision is None else decision.ground or ""
    if decision is None or ground not in _SENTENCES:
        return []
    lines = [_SENTENCES[ground]]
    if ground not in _BETTER:
        return lines
    with_pilot = _with_pilot(store, decision) if isinstance(store, Store) else None
    return [*lines, with_pilot or _BETTER[ground]]


def _with_pilot(store: Store, decision: DecisionRecord) -> str | None:
    """Return where the pilot of a workload with the job's name would have sent it; None: there is
    no such pilot."""
    request = json.loads(decision.request)
    name = decision.workload or request.get("job", {}).get("name", "").removesuffix(".sh")
    for workload in (f"{decision.user}/{name}", name):
        stored = store.forecasts(workload) if name else []
        if not stored:
            continue
        try:
            forecast = Forecast.from_json(stored[0].document)
        except DocumentError:
            return None
        best = _best_place(forecast, request, json.loads(decision.ranked))
        if forecast.kind == "program" and best is not None:
            place, seconds = best
            chosen = "too" if place == decision.chosen else f"instead of {decision.chosen}"
            return (
                f"with the pilot {workload} it would have been {place} {chosen}: "
                f"{format_seconds(seconds)}"
            )
    return None


def _best_place(
    forecast: Forecast, request: Mapping[str, Any], ranked: list[Mapping[str, Any]]
) -> tuple[str, float] | None:
    """Return the place with the shortest predicted time of those where the job fitted."""
    units = request["gpus"] or request["tasks"] * request["cpus_per_task"]
    times = []
    for row in ranked:
        time = forecast.runtime_at(row["platform"], max(1, units), nodes=max(1, request["nodes"]))
        if time is not None and row.get("excluded") is None:
            times.append((row["candidate"], time.mid))
    return min(times, key=lambda place: place[1], default=None)
