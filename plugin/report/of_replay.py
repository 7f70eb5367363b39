"""Reports replays of past jobs side by side, in tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from berth.pilot.units import format_elapsed, format_seconds
from berth.plugin.pictures import tuning as pictures
from berth.plugin.replay.clusters import lacking_partitions, with_jobs
from berth.plugin.report.parts import (
    Column,
    Part,
    Report,
    Table,
    TextTable,
    data_of,
    drawn,
    text_table,
)
from berth.policies.replay import UserChange, changes_by_user
from berth.policies.replay.metrics import Metrics
from berth.policies.replay.replayed import ReplayCounts, Replayed
from berth.policies.tuning.figures import ReplayFigures
from berth.policies.tuning.trace_replayer import figures_of

if TYPE_CHECKING:
    from berth.plugin.replay.truth import VariantReplays

_LEVELS = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_SAME = 0.0005
"""Relative changes below this are shown as no change."""
MOST_COMPARED = 4
"""Maximum number of replays that are compared with the first one."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of replays: a line in the table that compares them."""

    title: str
    key: str
    """The metric's attribute; an interval over weeks under the same key is shown beside the
    value."""
    write: Callable[[float], str]
    shown: Literal["always", "known", "above 0"] = "above 0"
    """When the table has a line for the metric: always, where any replay knows it, or where any is
    > 0."""
    count: Callable[[ReplayCounts], int] | None = None
    """Returns the metric's value from the counts of jobs, where it is such a count."""

    def value(self, metrics: Metrics) -> float | None:
        """Return the metric of one replay; None: unknown."""
        value = getattr(metrics, self.key) if self.count is None else self.count(metrics.counts)
        return None if value is None or not math.isfinite(value) else value

    def text(self, metrics: Metrics) -> str | None:
        """Return the metric of one replay as text, with its interval if the replay has several
        weeks."""
        value, interval = self.value(metrics), metrics.intervals.get(self.key)
        if value is None:
            return None
        if interval is None or not math.isfinite(interval.low):
            return self.write(value)
        low, high = self.write(interval.low), self.write(interval.high)
        return f"{self.write(value)} ({low}..{high})"

    def is_shown(self, replays: Sequence[Metrics]) -> bool:
        """Return whether a table of these replays has the metric."""
        values = [self.value(metrics) for metrics in replays]
        is_known = any(value is not None for value in values)
        return {"always": True, "known": is_known, "above 0": any(values)}[self.shown]


def _count(
    title: str, key: str, shown: Literal["always", "known", "above 0"] = "above 0"
) -> Figure:
    return Figure(title, key, str, shown, lambda counts: getattr(counts, key))


FIGURES = (
    Figure("mean wait", "mean_wait_s", format_elapsed, "always"),
    Figure("p95 wait", "p95_wait_s", format_elapsed, "always"),
    Figure("p99 wait", "p99_wait_s", format_elapsed, "always"),
    Figure("mean finish", "mean_finish_s", format_elapsed, "always"),
    Figure("makespan", "makespan_s", format_elapsed, "always"),
    Figure("bounded slowdown", "mean_bounded_slowdown", "{:.4g}".format, "known"),
    Figure("energy kWh", "energy_kwh", "{:.4g}".format, "known"),
    Figure("cost", "cost", "{:.4g}".format, "known"),
    Figure("carbon kg", "carbon_kg", "{:.4g}".format, "known"),
    Figure("cores used", "utilisation", "{:.1%}".format, "known"),
    Figure("GPUs used", "gpu_utilisation", "{:.1%}".format, "known"),
    Figure("fairness", "fairness", "{:.3f}".format, "always"),
    Figure("killed by limit", "killed", "{:.0f}".format, "always"),
    Figure("killed by memory", "killed_memory", "{:.0f}".format),
    _count("never started", "never"),
    Figure("refused", "refused", str, count=lambda counts: sum(counts.refused.values())),
    _count("jobs moved", "moved", "always"),
    _count("not judged", "not_judged", "always"),
    _count("policy failed", "policy_failed"),
)


def figures_table(replays: Sequence[tuple[str, Metrics]]) -> Table[Figure]:
    """Return a table with a line for each metric and a column for each named replay."""

    def column(name: str, metrics: Metrics) -> Column[Figure]:
        return Column(
            name, name, lambda figure: figure.value(metrics),
            words=lambda figure: figure.text(metrics), kind=float,
        )  # fmt: skip

    columns: list[Column[Figure]] = [
        Column("Figure", "figure", lambda figure: figure.key, words=lambda figure: figure.title)
    ]
    columns += [column(name, metrics) for name, metrics in replays]
    every = [metrics for _, metrics in replays]
    caption = "With 90 % intervals over weeks, where there are several"
    return Table(caption, columns, [figure for figure in FIGURES if figure.is_shown(every)])


def replays_report(
    variants: Sequence[VariantReplays],
    notes: Sequence[str],
) -> Report:
    """Return the report of replays for a terminal; ``notes``: about the jobs read."""
    shown = [(variant.name, variant.metrics) for variant in variants]
    lines = [*notes, *remarks(variants[0].replays[0])]
    parts = [Part("", lines, tables=[figures_table(shown)], notes=failures(variants))]
    parts += [_users(variants[0], variant) for variant in variants[1:]]
    return Report("", "", parts)


def counted(counts: ReplayCounts) -> list[str]:
    """Return sentences on how many jobs were read, replayed and refused."""
    lines = [f"{counts.read} jobs read, {counts.replayed} replayed, {counts.ended} ended"]
    lines += [f"{count} refused: {reason}" for reason, count in counts.refused.items()]
    if counts.never:
        lines.append(f"{counts.never} never started")
    return lines


def remarks(past: Replayed) -> list[str]:
    """Return sentences on what in the past jobs, beside the site, makes a replay say less."""
    return [*unknown_partitions(past), *without_limit(past), *empty_partitions(past)]


def unknown_partitions(done: Replayed) -> list[str]:
    """Return a sentence on the jobs' partitions that the site file lacks."""
    present = {partition.name for partition in done.cluster.partitions}
    lacking = lacking_partitions(done.trace, present)
    if not lacking:
        return []
    return [
        f"unknown partitions: {with_jobs(done.trace, lacking)}; the site file has "
        f"{', '.join(sorted(done.cluster.queues))}: give candidates those names, or add partitions "
        "with --set partitions.NAME.nodes=CANDIDATE"
    ]


def without_limit(done: Replayed) -> list[str]:
    """Return a sentence on the jobs that no time limit ends; empty: every job has one."""
    count = int(np.sum(np.isinf(done.limit_s) & (done.refused == 0)))
    if not count or not done.settings.kill_at_limit:
        return []
    planned = format_seconds(done.settings.unlimited_plan_s)
    jobs = "1 job has" if count == 1 else f"{count} jobs have"
    return [
        f"{jobs} no time limit, nor has the partition: never killed; backfill plans {planned} for "
        "each"
    ]


def empty_partitions(done: Replayed) -> list[str]:
    """Return a warning if partitions of the site had no jobs in the past: what a policy gains there
    is not what it would gain at a site that uses them."""
    names = [partition.kind_of or partition.name for partition in done.cluster.partitions]
    used = {names[part] for part in done.partition.tolist() if part >= 0}
    empty = [name for name in done.cluster.queues if name not in used]
    if not used or not empty:
        return []
    return [
        f"warning: all past jobs ran in {', '.join(sorted(used))}, none in {', '.join(empty)}: "
        "most of what moving jobs gains here comes from nodes that stood empty, not from the policy"
    ]


def failures(variants: Sequence[VariantReplays]) -> list[str]:
    """Return sentences on how many jobs each policy failed to place."""
    return [
        f"{variant.name}: the policy failed on {variant.metrics.counts.policy_failed} jobs, which "
        f"stayed where they were; first on {variant.failure}"
        for variant in variants
        if variant.failure
    ]


def figures_data(name: str, metrics: Metrics) -> dict[str, Any]:
    """Return the metrics of one replay, for JSON; unknown ones are null."""
    values = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in vars(metrics).items()
        if key not in {"counts", "intervals", "draws"}
    }
    return {
        "name": name,
        **values,
        "counts": vars(metrics.counts),
        "intervals": {key: list(value) for key, value in metrics.intervals.items()},
    }


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{format_elapsed(abs(seconds))}"


def _change(change: UserChange) -> str:
    text = _signed(change.after_s - change.before_s)
    if change.change is not None:
        text += f" ({_signed(change.change.low)}..{_signed(change.change.high)})"
    return text


USERS: tuple[Column[UserChange], ...] = (
    Column("User", "user", lambda change: change.user),
    Column("Jobs", "jobs", lambda change: change.jobs, kind=float),
    Column("Mean finish before", "finish_before_s", lambda change: change.before_s, format_elapsed,
           "s"),
    Column("After", "finish_s", lambda change: change.after_s, format_elapsed, "s"),
    Column("Change", "change_s", lambda change: change.change and list(change.change), unit="s",
           words=_change, kind=list[float]),
    Column("Killed more", "killed_more", lambda change: change.killed, kind=float),
)  # fmt: skip
"""The columns of a user's changes compared with the first replay."""


MOST_USERS = 5
"""Number of the users that lose, and of those that gain, who are named."""


def _users(first: VariantReplays, variant: VariantReplays) -> Part:
    changes = changes_by_user(first.replays, variant.replays)
    losers = [change for change in changes if change.loses]
    winners = [c for c in reversed(changes) if not c.loses and c.after_s < c.before_s]
    rows = [*losers[:MOST_USERS], *winners[:MOST_USERS]]
    title = f"{variant.name} against {first.name}: {len(losers)} of {len(changes)} users lose"
    caption = "Users that lose and that gain most"
    return Part(title, tables=[Table(caption, USERS, rows)] if rows else ())


def users_data(first: VariantReplays, variant: VariantReplays) -> list[dict[str, Any]]:
    """Return every user's change compared with the first replay, for JSON."""
    if variant is first:
        return []
    changes = changes_by_user(first.replays, variant.replays)
    return [{**data_of(USERS, change), "loses": change.loses} for change in changes]


def replay_report(trace: str, variants: Sequence[VariantReplays], notes: Sequence[str]) -> Report:
    """Return a report with all replays in one table, then each further one compared with the first
    in pictures and tables, by the first simulation of each."""
    first, *others = variants
    hint = [] if others else ["Name a second --backfill or --policy to compare."]
    table = figures_table([(variant.name, variant.metrics) for variant in variants])
    lines = [*notes, *remarks(first.replays[0]), *failures(variants), *hint]
    parts = [Part("Figures", lines, tables=[table])]
    before = figures_of(first.replays[0])
    for other in others[:MOST_COMPARED]:
        labels = (first.name, other.name)
        for part in compared_parts(before, figures_of(other.replays[0]), labels):
            title = f"{part.title}: {other.name} beside {first.name}"
            parts.append(replace(part, title=title))
    return Report(f"Replay of {trace}", "", parts)


def compared_parts(
    before: ReplayFigures, after: ReplayFigures, labels: tuple[str, str]
) -> list[Part]:
    """Return report sections that compare two replays: waits, use of cores, and users."""
    users = pictures.changed_users(before, after)
    lose = sum(user.change > _SAME for user in users)
    gain = sum(user.change < -_SAME for user in users)
    header = ("User", "Jobs", labels[0], labels[1], "Change")
    rows = [
        (
            user.user, str(user.jobs), format_elapsed(user.before_s),
            format_elapsed(user.after_s), f"{user.change:+.1%}",
        )
        for user in pictures.most_changed(users)
    ]  # fmt: skip
    sentence = (
        f"By their mean time from submission to end {lose} of {len(users)} users lose and "
        f"{gain} gain. Below stand those who change most."
    )
    words = "Share of jobs that waited at most so long"
    waited = drawn(words, lambda: pictures.waits(before, after, labels))
    return [
        Part("Waits", pictures=waited, tables=[_waits(before, after, labels)]),
        Part("Use", tables=[_use(before, after, labels)]),
        Part("Winners and losers", [sentence], tables=[text_table("Users", header, rows)]),
    ]


def _waits(before: ReplayFigures, after: ReplayFigures, labels: tuple[str, str]) -> TextTable:
    def shown(figures: ReplayFigures, level: float) -> str:
        if not len(figures.wait_s):
            return "-"
        return format_elapsed(float(np.quantile(figures.wait_s, level)))

    return text_table(
        "Waits",
        ("Share of jobs", f"waited at most, {labels[0]}", labels[1]),
        [(f"{level:.0%}", shown(before, level), shown(after, level)) for level in _LEVELS],
    )


def _use(before: ReplayFigures, after: ReplayFigures, labels: tuple[str, str]) -> TextTable:
    def shown(figures: ReplayFigures, queue: int) -> str:
        rows = figures.queue == queue
        hours = float(figures.core_s[rows].sum()) / pictures.HOUR_S
        return f"{int(rows.sum()):,} jobs, {hours:,.0f} core-hours"

    queues = before.queues or ("all",)
    capacity = before.capacity or {}
    return text_table(
        "Jobs and core-hours by partition",
        ("Partition", "Cores", *labels),
        [
            (name, f"{capacity[name]:.0f}" if name in capacity else "-", shown(before, n),
             shown(after, n))
            for n, name in enumerate(queues)
        ],
    )  # fmt: skip
