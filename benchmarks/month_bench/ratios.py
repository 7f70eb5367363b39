"""How often the predicted ratio between the two kinds holds the true one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from month_bench.berth_site import CORES_PER_NODE, PLATFORMS, Daemon
from month_bench.jobs import NEW, OLD, Job


def coverage(daemon: Daemon, past: Iterable[Job], decided: Iterable[Job]) -> str:
    """Return a table: programs by the kinds on which they ran in the imported month, and the share
    whose true ratio lies in the predicted interval."""
    ran_on: dict[tuple[str, str], set[str]] = {}
    for job in past:
        ran_on.setdefault((job.user, job.program), set()).add(job.queue)
    programs = {(job.user, job.program): job for job in decided}
    rows: dict[str, list[tuple[float, float]]] = {}
    asked = 0
    for key, job in programs.items():
        asked += 1
        forecast = daemon.forecast(job)
        predicted = getattr(forecast, "ratio", lambda *_: None)(
            PLATFORMS[NEW], min(job.cores, CORES_PER_NODE), PLATFORMS[OLD],
            min(job.cores, CORES_PER_NODE),
        )  # fmt: skip
        if predicted is None:
            continue
        kinds = ran_on.get(key, set())
        group = "ran on both kinds" if len(kinds) == 2 else "on one kind" if kinds else "on none"
        error = math.log(predicted.mid / job.ratio)
        inside = predicted.low <= job.ratio <= predicted.high
        rows.setdefault(group, []).append((error, float(inside)))
    lines = [f"{asked} programs; true ratio against the predicted one", ""]
    lines += ["| program | number | median error | 90 % interval holds |", "|---|---|---|---|"]
    for group, pairs in sorted(rows.items()):
        error = math.expm1(statistics.median(abs(error) for error, _ in pairs))
        held = statistics.fmean(inside for _, inside in pairs)
        lines.append(f"| {group} | {len(pairs)} | {error:.1%} | {held:.1%} |")
    return "\n".join(lines)
