"""Replays side by side, as text and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from berth.pilot.units import format_elapsed
from berth.plugin.replay.truth import Column
from berth.plugin.report.terminal import columns
from berth.policies.replay import Trace, UserChange, changes_by_user
from berth.policies.replay.metrics import Metrics
from berth.policies.replay.replayed import Counts, Replayed

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
SHOWN = 5
"""Unknown partitions by name."""
_NOT_RUN = (("never started", "never"), ("lost", "lost"), ("began again", "requeued"))
_SHARES = (("cores used", "utilisation"), ("GPUs used", "gpu_utilisation"))


def table(found: Sequence[tuple[str, Metrics]]) -> str:
    """A column for each replay; ``low..high`` is the 90 % interval over weeks."""
    return columns(["", *(name for name, _ in found)], figure_rows(found))


def figure_rows(found: Sequence[tuple[str, Metrics]]) -> list[list[str]]:
    """The lines of that table."""
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
    for title, name in (("killed by limit", "killed"), ("killed by memory", "killed_memory")):
        if name == "killed" or any(getattr(m, name) for _, m in found):
            rows.append([title, *(_cell(m, name, lambda v: f"{v:.0f}") for _, m in found)])
    if any(m.recuts for _, m in found):
        rows.append(["GPUs cut anew", *(str(m.recuts) for _, m in found)])
        rows.append(["GPU-hours drained", *(f"{m.drained_gpu_h:.3g}" for _, m in found)])
    for title, name in _NOT_RUN:
        if any(getattr(m.counts, name) for _, m in found):
            rows.append([title, *(str(getattr(m.counts, name)) for _, m in found)])
    if any(m.counts.refused for _, m in found):
        rows.append(["refused", *(str(sum(m.counts.refused.values())) for _, m in found)])
    rows.append(["jobs moved", *(str(m.counts.moved) for _, m in found)])
    rows.append(["not judged", *(str(m.counts.not_judged) for _, m in found)])
    if any(m.counts.policy_failed for _, m in found):
        rows.append(["policy failed", *(str(m.counts.policy_failed) for _, m in found)])
    return rows


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


def unknown_partitions(done: Replayed) -> list[str]:
    """Which partitions of the jobs the site does not have, in a line."""
    present = {one.name for one in done.cluster.partitions}
    lacking = lacking_partitions(done.trace, present)
    if not lacking:
        return []
    return [
        f"unknown partitions: {with_jobs(done.trace, lacking)}; the site file has "
        f"{', '.join(sorted(present))}: give candidates those names, or the jobs these"
    ]


def lacking_partitions(trace: Trace, present: Collection[str]) -> dict[int, int]:
    """How many jobs ask for each partition, by its number, that is not among ``present``."""
    asked = Counter(trace.queue.tolist())
    return {
        number: asked[number]
        for number, name in enumerate(trace.queues)
        if name not in present and asked[number]
    }


def with_jobs(trace: Trace, asked: Mapping[int, int]) -> str:
    """Names of partitions, each with its number of jobs; the first ``SHOWN`` of them."""
    names = [f"{trace.queues[at] or 'none'} ({count} jobs)" for at, count in asked.items()]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def failures(found: Sequence[Column]) -> list[str]:
    """On how many jobs each policy failed, in lines."""
    return [
        f"{one.name}: the policy failed on {one.metrics.counts.policy_failed} jobs, which stayed "
        f"where they were; first on {one.failure}"
        for one in found
        if one.failure
    ]


def as_json(name: str, found: Metrics) -> dict[str, Any]:
    """Figures of one replay; what is not known is null."""
    values = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in vars(found).items()
        if key not in {"counts", "intervals", "draws"}
    }
    return {
        "name": name,
        **values,
        "counts": vars(found.counts),
        "intervals": {key: list(value) for key, value in found.intervals.items()},
    }


def users_table(found: Sequence[Column], most: int) -> str:
    """Users that lose, and that gain, most against the first column."""
    lines = []
    for one in found[1:]:
        changes = changes_by_user(found[0].replays, one.replays)
        losers = [change for change in changes if change.loses]
        winners = [c for c in reversed(changes) if not c.loses and c.after_s < c.before_s]
        lines.append(
            f"{one.name} against {found[0].name}: {len(losers)} of {len(changes)} users lose"
        )
        rows = [_user(change) for change in (*losers[:most], *winners[:most])]
        if rows:
            head = ["user", "jobs", "mean finish before", "after", "change", "killed more"]
            lines.append(columns(head, rows))
    return "\n".join(lines)


def users_as_json(first: Column, one: Column) -> list[dict[str, Any]]:
    """Every user's change against the first column."""
    if one is first:
        return []
    return [
        {
            "user": change.user, "jobs": change.jobs, "finish_before_s": change.before_s,
            "finish_s": change.after_s, "loses": change.loses, "killed_more": change.killed,
            "change_s": None if change.change is None else list(change.change),
        }
        for change in changes_by_user(first.replays, one.replays)
    ]  # fmt: skip


def _user(change: UserChange) -> list[str]:
    def signed(seconds: float) -> str:
        return f"{'+' if seconds >= 0 else '-'}{format_elapsed(abs(seconds))}"

    shown = signed(change.after_s - change.before_s)
    if change.change is not None:
        shown += f" ({signed(change.change.low)}..{signed(change.change.high)})"
    return [
        change.user, str(change.jobs), _time(change.before_s), _time(change.after_s), shown,
        str(change.killed),
    ]  # fmt: skip


def _time(seconds: float) -> str:
    return format_elapsed(seconds)


def _cell(found: Metrics, name: str, shown: Any) -> str:
    value = getattr(found, name)
    if value is None or not math.isfinite(value):
        return "-"
    interval = found.intervals.get(name)
    if interval is None or not math.isfinite(interval.low):
        return str(shown(value))
    return f"{shown(value)} ({shown(interval.low)}..{shown(interval.high)})"
