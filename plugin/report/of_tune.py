"""Reports a policy tuning: the verdict on the test weeks, the recommended site file, the trials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth.pilot.units import J_PER_KWH, format_elapsed
from berth.plugin.pictures import tuning as pictures
from berth.plugin.report.of_replay import compared_parts
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
from berth.plugin.tune.folder import REPORT, TuneOrder
from berth.policies.tuning.differences import DAY_S, PolicyDifference
from berth.policies.tuning.figures import METRICS, TuningMetric
from berth.policies.tuning.judgement import Judgement
from berth.policies.tuning.parameters import PARAMETERS
from berth.policies.tuning.study import Tried, Tuned

if TYPE_CHECKING:
    from berth.plugin.tune.run import Result

MOST_ROWS = 12
"""Maximum number of trials in the table."""
RESULT_SCHEMA = "berth.tuned/1"


def tune_report(result: Result, currency: str) -> Report:
    """Return the full report of a tuning: verdict, test weeks, recommended site file, trials, and
    both replays."""
    order, tuned, judgement = result.order, result.tuned, result.judgement
    difference = result.difference
    recommended = judgement.recommended if difference else None
    metrics = [METRICS[name] for name in order.metrics]
    parts = [
        Part("How", [_how(order, tuned, judgement), *result.notes]),
        Part(
            "On the test weeks", _counted(judgement), tables=differences_tables(judgement, currency)
        ),
        Part(
            "The recommended site file",
            [*(() if difference else ["As it is."]), *_dropped(judgement)],
            tables=_changes(recommended, tuned.today),
            verbatim=difference,
        ),
        Part(
            "Trials on the training weeks",
            _more_trials(tuned),
            pictures=drawn(
                "Every trial that was replayed to its end, in the first two metrics: those that no "
                "other beats, today's policy, and the one that was judged",
                lambda: pictures.front(tuned, judgement, [_axis(m, currency) for m in metrics]),
            ),
            tables=[_front(tuned, judgement, metrics, currency)],
        ),
    ]
    if judgement.recommended:
        parts += compared_parts(judgement.today, judgement.figures, pictures.LABELS)
    return Report(f"Tune of {order.site}", judgement.reason, parts)


def verdict_report(result: Result, currency: str) -> Report:
    """Return the tuning's report for a terminal: number of trials, both policies compared, and the
    changes to files."""
    now = result.tuned.progress
    unfinished = f", {now.running} still run or were lost" if now.running else ""
    trials = (
        f"{now.finished} trials, {now.stopped} stopped early "
        f"({now.stopped / max(1, now.finished):.0%}), {now.failed} lost or failed{unfinished}"
    )
    lines = [
        *result.notes, *_counted(result.judgement), trials, result.judgement.reason,
        *_dropped(result.judgement),
    ]  # fmt: skip
    parts = [Part("", lines)]
    parts += [Part("", tables=[table]) for table in differences_tables(result.judgement, currency)]
    if result.difference:
        parts.append(Part("", verbatim=result.difference.rstrip()))
    return Report("", "", parts)


def tune_data(result: Result, folder: Path) -> dict[str, Any]:
    """Return the tuning's result, for JSON."""
    now, judgement = result.tuned.progress, result.judgement
    return {
        "schema": RESULT_SCHEMA,
        "trials": {
            "done": now.done, "stopped_early": now.stopped, "failed": now.failed,
            "running": now.running, "surplus": now.surplus,
        },
        "notes": list(result.notes),
        "recommended": bool(result.difference),
        "reason": judgement.reason,
        "values": {} if judgement.recommended is None else dict(judgement.recommended.values),
        "without_effect": list(judgement.dropped),
        "differences": [
            {
                **data_of(differences_columns(""), row),
                "low": row.low if row.known else None, "high": row.high if row.known else None,
            }
            for row in judgement.differences
        ],
        "front": [
            {"trial": trial.number, "values": dict(trial.values), "scores": list(trial.scores)}
            for trial in result.tuned.front
        ],
        "report": str(folder / REPORT),
    }  # fmt: skip


def _with_unit(metric: TuningMetric, value: float, currency: str) -> str:
    if metric.unit == "s":
        return format_elapsed(value)
    unit, scale = _unit(metric, currency)
    return f"{value / scale:.4g} {unit}".rstrip()


def _unit(metric: TuningMetric, currency: str) -> tuple[str, float]:
    """Return the unit that a metric is shown in, and how many of the metric's own unit it is."""
    if metric.unit == "s":
        return "hours", pictures.HOUR_S
    if metric.unit == "J":
        return "kWh", J_PER_KWH
    return currency if metric.unit == "currency" else metric.unit, 1.0


def differences_columns(currency: str) -> tuple[Column[PolicyDifference], ...]:
    """Make the columns that compare the current and the tuned policy by metric, with the interval
    of the change."""
    return (
        Column("Metric", "metric", lambda row: row.metric.name, words=lambda row: row.metric.title),
        Column("Today's", "today", lambda row: row.today,
               words=lambda row: _with_unit(row.metric, row.today, currency), kind=float),
        Column("Tuned", "tuned", lambda row: row.then,
               words=lambda row: _with_unit(row.metric, row.then, currency), kind=float),
        Column("Change", "change", lambda row: row.change, "{:+.1%}".format, kind=float),
        Column("95 % interval", "interval", lambda row: (row.low, row.high) if row.known else None,
               lambda ends: f"{ends[0]:+.1%} to {ends[1]:+.1%}",
               missing="not known: under two days", ends=("low", "high")),
    )  # fmt: skip


def differences_tables(judgement: Judgement, currency: str) -> list[Table[PolicyDifference]]:
    """Return tables of both policies by metric: the tune's metrics, then the others."""
    tables = (
        ("Both policies on the test weeks", judgement.differences),
        ("Metrics that the tune did not look at", judgement.others),
    )
    columns = differences_columns(currency)
    return [Table(caption, columns, rows) for caption, rows in tables if rows]


def _axis(metric: TuningMetric, currency: str) -> tuple[str, float]:
    """Return a metric's name with the unit that it is shown in, and how many of the metric's own
    unit that unit is."""
    unit, scale = _unit(metric, currency)
    return f"{metric.title} ({unit})" if unit else metric.title, scale


def _front(
    tuned: Tuned, judgement: Judgement, metrics: Sequence[TuningMetric], currency: str
) -> TextTable:
    """Return the Pareto-optimal trials, those that no other trial beats in every metric; the
    current policy first."""
    names = [name for name in PARAMETERS if any(name in trial.values for trial in tuned.front)]
    judged, word = judgement.recommended, "chosen" if judgement.shown else "judged"
    rows = []
    first = [trial for trial in (tuned.today, judged) if trial is not None]
    for trial in (*first, *(t for t in tuned.front if t not in first))[:MOST_ROWS]:
        values = [_value(trial.values.get(name)) for name in names]
        scores = [_with_unit(m, s, currency) for m, s in zip(metrics, trial.scores, strict=True)]
        label = f"trial {trial.number}" + f" ({word})" * (trial is judged)
        label = "today's" if trial is tuned.today else label
        rows.append((label, *scores, *values))
    header = ("Trial", *(m.title for m in metrics), *names)
    return text_table("Trials that no other beats in every metric", header, rows)


def _more_trials(tuned: Tuned) -> list[str]:
    more = sum(trial is not tuned.today for trial in tuned.front) - MOST_ROWS + 1
    if more <= 0:
        return []
    return [
        f"The table leaves out {more} trials that no other beats: berth replay tune --json has all."
    ]


def _value(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.3g}"


def _how(order: TuneOrder, tuned: Tuned, judgement: Judgement) -> str:
    now = tuned.progress
    share = now.stopped / max(1, now.finished)
    days = (judgement.test.end_s - judgement.test.begin_s) / DAY_S
    blocks = "week" if judgement.block_s > 2 * DAY_S else "day"
    lost = f" {now.failed} more lost or failed." if now.failed else ""
    return (
        f"{now.finished} trials on jobs of the first {order.train_s / DAY_S:.1f} days, "
        f"{now.stopped} of them ({share:.0%}) stopped early.{lost} Judged on the {days:.1f} days "
        f"after, which no trial saw; intervals by leaving out one {blocks} after another."
    )


def _dropped(judgement: Judgement) -> list[str]:
    if not judgement.dropped:
        return []
    return [
        f"Without a measurable effect on training and test weeks, so left as today: "
        f"{', '.join(judgement.dropped)}."
    ]


def _counted(judgement: Judgement) -> list[str]:
    before, after = judgement.today, judgement.figures
    of = f"Of all {before.jobs:,} jobs {before.ended:,} ended under today's policy"
    killed = f"killed by their time limit: {before.killed:,}"
    if judgement.recommended is not None:
        of += f" and {after.ended:,} under the tuned one"
        killed += f" and {after.killed:,}"
    sentences = [f"{of}; {killed}."]
    sentences += [
        f"{count:,} could not be replayed: {why}." for why, count in before.refused.items()
    ]
    if before.only_here:
        sentences.append(
            f"Of {before.only_here:,} nobody knows what they take elsewhere than where they ran: "
            "no policy moves them."
        )
    else:
        sentences.append("What each takes on another platform is known of all.")
    if before.unjudged or after.unjudged:
        tuned = f" and {after.unjudged:,} under the tuned one" * (judgement.recommended is not None)
        sentences.append(
            f"{before.unjudged:,} under today's policy{tuned} were sent where nobody knows what "
            "they take: they stayed where they were."
        )
    return [" ".join(sentences)]


def _changes(recommended: Tried | None, today: Tried | None) -> list[TextTable]:
    if recommended is None:
        return []
    before = {} if today is None else today.values
    rows = [
        (n, _value(before.get(n)), _value(v), PARAMETERS[n].why)
        for n, v in recommended.values.items()
        if before.get(n) != v
    ]
    return [text_table("What changes", ("Key", "Today's", "Tuned", "What it does"), rows)]
