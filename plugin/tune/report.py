"""The report of a tune: one HTML file that needs nothing else, with every picture in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from berth.pilot.units import format_seconds
from berth.plugin.pictures import tuning as pictures
from berth.plugin.report import page
from berth.plugin.report.of_replay import compared_parts
from berth.plugin.report.parts import Part, Report, Table, drawn
from berth.plugin.tune.folder import Order
from berth.policies.tuning.figures import METRICS, Figures, Metric
from berth.policies.tuning.judgement import DAY_S, Difference, Judgement
from berth.policies.tuning.parameters import PARAMETERS
from berth.policies.tuning.study import Tried, Tuned

MOST_ROWS = 12


def html(
    order: Order,
    tuned: Tuned,
    judgement: Judgement,
    difference: str,
    slices: str = "",
    *,
    currency: str,
    made: str = "",
) -> str:
    """The whole page. ``difference``: of the site file; ``slices``: how GPUs are to be cut; empty:
    no change is recommended."""
    found = tune_report(order, tuned, judgement, difference, slices, currency=currency)
    return page.html(found, made_by=f"berth tune, jobs of {order.trace}", made=made)


def tune_report(
    order: Order,
    tuned: Tuned,
    judgement: Judgement,
    difference: str,
    slices: str = "",
    *,
    currency: str,
) -> Report:
    """The verdict, the test weeks, the recommended site file, the trials, both replays."""
    recommended = judgement.recommended if difference or slices else None
    metrics = [METRICS[name] for name in order.metrics]
    titles = {metric.name: metric.title for metric in metrics}
    before, after = judgement.today, judgement.figures
    test = [_differences(judgement.differences, currency)] if judgement.differences else ()
    parts = [
        Part("On the test weeks", [_counted(before, after)], tables=test),
        Part(
            "The recommended site file",
            () if difference else ["As it is."],
            tables=_why(recommended),
            verbatim=difference,
        ),
        *([Part("The recommended settings of slices", verbatim=slices)] if slices else ()),
        Part(
            "Trials on the training weeks",
            pictures=drawn(
                "Every trial in the first two metrics: those that no other beats, today's policy, "
                "and the one that was chosen",
                lambda: pictures.front(tuned, judgement, list(titles.values())),
            ),
            tables=[_front(tuned, judgement, metrics, currency)],
        ),
        *compared_parts(before, after, pictures.LABELS),
    ]
    if tuned.importance:
        parts.append(_importance(tuned, titles))
    how = _how(order, tuned, judgement)
    return Report(f"Tune of {order.site}", judgement.reason, [Part("How", [how]), *parts])


def shown(metric: Metric, value: float, currency: str) -> str:
    """A value of a metric with its unit."""
    if metric.unit == "s":
        return format_seconds(value)
    unit = currency if metric.unit == "currency" else metric.unit
    return f"{value:.4g} {unit}".rstrip()


def _differences(found: Iterable[Difference], currency: str) -> Table:
    """Today's and the tuned policy by metric, with the interval of the change."""
    rows = [
        (
            one.metric.title,
            shown(one.metric, one.today, currency),
            shown(one.metric, one.then, currency),
            f"{one.change:+.1%}",
            f"{one.low:+.1%} to {one.high:+.1%}",
        )
        for one in found
    ]
    header = ("Metric", "Today's", "Tuned", "Change", "95 % interval")
    return Table("Both policies on the test weeks", header, rows)


def _front(tuned: Tuned, judgement: Judgement, metrics: Sequence[Metric], currency: str) -> Table:
    """The trials that no other beats in every metric, today's first."""
    names = [name for name in PARAMETERS if any(name in one.values for one in tuned.front)]
    chosen = judgement.recommended
    rows = []
    first = [one for one in (tuned.today, chosen) if one is not None]
    for one in (*first, *(t for t in tuned.front if t not in first))[:MOST_ROWS]:
        values = [_value(one.values.get(name)) for name in names]
        scores = [shown(m, s, currency) for m, s in zip(metrics, one.scores, strict=True)]
        label = f"trial {one.number}"
        label = "today's" if one is tuned.today else label + " (chosen)" * (one is chosen)
        rows.append((label, *scores, *values))
    header = ("Trial", *(m.title for m in metrics), *names)
    return Table("Trials that no other beats in every metric", header, rows)


def _importance(tuned: Tuned, titles: dict[str, str]) -> Part:
    names = sorted({name for one in tuned.importance.values() for name in one})
    rows = [
        (name, *(f"{one.get(name, 0.0):.0%}" for one in tuned.importance.values()))
        for name in names
    ]
    header = ("Parameter", *(titles.get(metric, metric) for metric in tuned.importance))
    return Part(
        "What matters",
        pictures=drawn(
            "Each parameter's part in the variance of each metric",
            lambda: pictures.importance(tuned.importance, titles),
        ),
        tables=[Table("Part in the variance over the trials", header, rows)],
    )


def _value(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.3g}"


def _how(order: Order, tuned: Tuned, judgement: Judgement) -> str:
    now = tuned.progress
    share = now.stopped / max(1, now.finished)
    days = (judgement.test.end_s - judgement.test.begin_s) / DAY_S
    blocks = "weeks" if judgement.block_s > DAY_S else "days"
    lost = f" {now.failed} were lost or failed." if now.failed else ""
    return (
        f"{now.finished} trials on jobs of the first {order.train_s / DAY_S:.1f} days, "
        f"{now.stopped} of them ({share:.0%}) stopped early.{lost} Judged on the {days:.1f} days "
        f"after, which no trial saw; intervals by resampling {blocks}."
    )


def _counted(before: Figures, after: Figures) -> str:
    counted = (
        f"Of {before.jobs:,} jobs {len(before.wait_s):,} ended under today's policy and "
        f"{len(after.wait_s):,} under the tuned one; killed by their time limit: {before.killed:,} "
        f"and {after.killed:,}."
    )
    if not before.unjudged and not after.unjudged:
        return f"{counted} What each takes elsewhere is known of all."
    return (
        f"{counted} Nobody knows what {before.unjudged:,} and {after.unjudged:,} of them would "
        "have done elsewhere: they stayed where they were."
    )


def _why(recommended: Tried | None) -> list[Table]:
    if recommended is None:
        return []
    rows = [(n, _value(v), PARAMETERS[n].why) for n, v in recommended.values.items()]
    return [Table("What changes", ("Key", "Value", "What it does"), rows)]
