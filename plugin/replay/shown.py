"""Replays side by side, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from berth.pilot.units import format_elapsed
from berth.plugin.cli.columns import columns
from berth.policies.replay.metrics import Metrics
from berth.policies.replay.replayed import Counts

_TIMES = (
    ("mean wait", "mean_wait_s"),
    ("p95 wait", "p95_wait_s"),
    ("p99 wait", "p99_wait_s"),
    ("mean finish", "mean_finish_s"),
    ("makespan", "makespan_s"),
)
_NUMBERS = (
    ("bounded slowdown", "mean_bounded_slowdown"),
    ("energy kWh", "energy_kwh"),
    ("cost", "cost"),
    ("carbon kg", "carbon_kg"),
)
_SHARES = (("cores used", "utilisation"), ("GPUs used", "gpu_utilisation"))


def table(found: Sequence[tuple[str, Metrics]]) -> str:
    """A column for each replay; ``low..high`` is the 90 % interval over weeks."""
    rows = []
    for title, name in _TIMES:
        rows.append([title, *(_cell(m, name, _time) for _, m in found)])
    for title, name in _NUMBERS:
        if any(getattr(m, name) is not None for _, m in found):
            rows.append([title, *(_cell(m, name, lambda v: f"{v:.4g}") for _, m in found)])
    for title, name in _SHARES:
        if any(getattr(m, name) is not None for _, m in found):
            rows.append([title, *(_cell(m, name, lambda v: f"{v:.1%}") for _, m in found)])
    rows.append(["fairness", *(_cell(m, "fairness", lambda v: f"{v:.3f}") for _, m in found)])
    rows.append(["killed by limit", *(str(m.killed) for _, m in found)])
    rows.append(["jobs moved", *(str(m.counts.moved) for _, m in found)])
    rows.append(["not judged", *(str(m.counts.not_judged) for _, m in found)])
    return columns(["", *(name for name, _ in found)], rows)


def counted(counts: Counts) -> list[str]:
    """How many jobs became what, in lines."""
    lines = [f"{counts.read} jobs read, {counts.replayed} replayed, {counts.ended} ended"]
    lines += [f"{count} refused: {reason}" for reason, count in counts.refused.items()]
    if counts.never:
        lines.append(f"{counts.never} never started")
    if counts.lost:
        lines.append(f"{counts.lost} lost with a node that broke")
    if counts.requeued:
        lines.append(f"{counts.requeued} runs began again after a node broke")
    return lines


def as_json(name: str, found: Metrics) -> dict[str, Any]:
    """Figures of one replay; what is not known is null."""
    values = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in vars(found).items()
        if key not in {"counts", "intervals"}
    }
    return {
        "name": name,
        **values,
        "counts": vars(found.counts),
        "intervals": {key: list(value) for key, value in found.intervals.items()},
    }


def _time(seconds: float) -> str:
    return format_elapsed(seconds)


def _cell(found: Metrics, name: str, shown: Any) -> str:
    value = getattr(found, name)
    if value is None or not math.isfinite(value):
        return "-"
    interval = found.intervals.get(name)
    if interval is None:
        return str(shown(value))
    return f"{shown(value)} ({shown(interval.low)}..{shown(interval.high)})"
