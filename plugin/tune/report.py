"""The report of a tune: one HTML file that needs nothing else, with every picture in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from berth.pilot.units import format_elapsed
from berth.plugin.pictures import tuning as pictures
from berth.plugin.report import html as page
from berth.plugin.report.of_replay import compared_parts
from berth.plugin.report.parts import Part, Report, TextTable, drawn, text_table
from berth.plugin.tune.folder import Order
from berth.policies.carbon import J_PER_KWH
from berth.policies.tuning.judgement import DAY_S, Difference, Judgement
from berth.policies.tuning.parameters import PARAMETERS
from berth.policies.tuning.replayer import METRICS, Metric
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
    notes: Sequence[str] = (),
    made: str = "",
) -> str:
    """The whole page. ``difference``: of the site file; ``slices``: how GPUs are to be cut; empty:
    no change is recommended. ``notes``: see Replayer."""
    found = tune_report(order, tuned, judgement, difference, slices, currency=currency, notes=notes)
    return page.html(found, made_by=f"berth replay tune, jobs of {order.trace}", made=made)


def tune_report(
    order: Order,
    tuned: Tuned,
    judgement: Judgement,
    difference: str,
    slices: str = "",
    *,
    currency: str,
    notes: Sequence[str] = (),
) -> Report:
    """The verdict, the test weeks, the recommended site file, the trials, both replays."""
    recommended = judgement.recommended if difference or slices else None
    metrics = [METRICS[name] for name in order.metrics]
    titles = {metric.name: metric.title for metric in metrics}
    before, after = judgement.today, judgement.figures
    parts = [
        Part("On the test weeks", _counted(judgement), tables=_both(judgement, currency)),
        Part(
            "The recommended site file",
            () if difference else ["As it is."],
            tables=_why(recommended, tuned.today),
            verbatim=difference,
        ),
        *([Part("The recommended settings of slices", verbatim=slices)] if slices else ()),
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
        *(compared_parts(before, after, pictures.LABELS) if judgement.recommended else ()),
    ]
    if tuned.importance:
        parts.append(_importance(tuned, titles))
    how = _how(order, tuned, judgement)
    return Report(f"Tune of {order.site}", judgement.reason, [Part("How", [how, *notes]), *parts])


def shown(metric: Metric, value: float, currency: str) -> str:
    """A value of a metric with its unit."""
    if metric.unit == "s":
        return format_elapsed(value)
    unit, scale = _unit(metric, currency)
    return f"{value / scale:.4g} {unit}".rstrip()


def _unit(metric: Metric, currency: str) -> tuple[str, float]:
    """In which a metric is shown, and what of it is one of that."""
    if metric.unit == "s":
        return "hours", pictures.HOUR_S
    if metric.unit == "J":
        return "kWh", J_PER_KWH
    return currency if metric.unit == "currency" else metric.unit, 1.0


def interval(one: Difference) -> str:
    """The interval of a change, where there were days enough for one."""
    return f"{one.low:+.1%} to {one.high:+.1%}" if one.known else "not known: under two days"


def rows_of(found: Iterable[Difference], currency: str) -> list[tuple[str, ...]]:
    """Today's and the tuned policy by metric, with the interval of the change."""
    return [
        (
            one.metric.title,
            shown(one.metric, one.today, currency),
            shown(one.metric, one.then, currency),
            f"{one.change:+.1%}",
            interval(one),
        )
        for one in found
    ]


def _both(judgement: Judgement, currency: str) -> list[TextTable]:
    header = ("Metric", "Today's", "Tuned", "Change", "95 % interval")
    tables = (
        ("Both policies on the test weeks", judgement.differences),
        ("Metrics that the tune did not look at", judgement.others),
    )
    return [text_table(title, header, rows_of(found, currency)) for title, found in tables if found]


def _axis(metric: Metric, currency: str) -> tuple[str, float]:
    """A metric's name and unit beside a picture, and what of it is one of that unit."""
    unit, scale = _unit(metric, currency)
    return f"{metric.title} ({unit})" if unit else metric.title, scale


def _front(
    tuned: Tuned, judgement: Judgement, metrics: Sequence[Metric], currency: str
) -> TextTable:
    """The trials that no other beats in every metric, today's first."""
    names = [name for name in PARAMETERS if any(name in one.values for one in tuned.front)]
    judged, word = judgement.recommended, "chosen" if judgement.shown else "judged"
    rows = []
    first = [one for one in (tuned.today, judged) if one is not None]
    for one in (*first, *(t for t in tuned.front if t not in first))[:MOST_ROWS]:
        values = [_value(one.values.get(name)) for name in names]
        scores = [shown(m, s, currency) for m, s in zip(metrics, one.scores, strict=True)]
        label = f"trial {one.number}" + f" ({word})" * (one is judged)
        label = "today's" if one is tuned.today else label
        rows.append((label, *scores, *values))
    header = ("Trial", *(m.title for m in metrics), *names)
    return text_table("Trials that no other beats in every metric", header, rows)


def _more_trials(tuned: Tuned) -> list[str]:
    more = sum(one is not tuned.today for one in tuned.front) - MOST_ROWS + 1
    if more <= 0:
        return []
    return [
        f"The table leaves out {more} trials that no other beats: berth replay tune --json has all."
    ]


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
        tables=[text_table("Part in the variance over the trials", header, rows)],
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
    lost = f" {now.failed} more lost or failed." if now.failed else ""
    return (
        f"{now.finished} trials on jobs of the first {order.train_s / DAY_S:.1f} days, "
        f"{now.stopped} of them ({share:.0%}) stopped early.{lost} Judged on the {days:.1f} days "
        f"after, which no trial saw; intervals by resampling {blocks}."
    )


def _counted(judgement: Judgement) -> list[str]:
    before, after = judgement.today, judgement.figures
    of = f"Of {before.jobs:,} jobs {len(before.wait_s):,} ended under today's policy"
    killed = f"killed by their time limit: {before.killed:,}"
    if judgement.recommended is not None:
        of += f" and {len(after.wait_s):,} under the tuned one"
        killed += f" and {after.killed:,}"
    found = [f"{of}; {killed}."]
    found += [f"{count:,} could not be replayed: {why}." for why, count in before.refused.items()]
    if before.only_here:
        found.append(
            f"Of {before.only_here:,} nobody knows what they take elsewhere than where they ran: "
            "no policy moves them."
        )
    else:
        found.append("What each takes on another platform is known of all.")
    if before.unjudged or after.unjudged:
        found.append(
            f"{before.unjudged:,} under today's policy and {after.unjudged:,} under the tuned one "
            "were sent where nobody knows what they take: they stayed where they were."
        )
    return [" ".join(found)]


def _why(recommended: Tried | None, today: Tried | None) -> list[TextTable]:
    if recommended is None:
        return []
    before = {} if today is None else today.values
    rows = [
        (n, _value(before.get(n)), _value(v), PARAMETERS[n].why)
        for n, v in recommended.values.items()
        if before.get(n) != v
    ]
    return [text_table("What changes", ("Key", "Today's", "Tuned", "What it does"), rows)]
