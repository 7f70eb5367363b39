"""The report of a tune: one HTML file that needs nothing else, with every picture in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from berth.pilot.units import format_seconds
from berth.plugin.pictures import tuning as pictures
from berth.plugin.tune.folder import Order
from berth.policies.tuning.figures import METRICS, Figures, Metric
from berth.policies.tuning.judgement import DAY_S, Difference, Judgement
from berth.policies.tuning.parameters import PARAMETERS
from berth.policies.tuning.study import Tried, Tuned

MOST_ROWS = 12
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#22303c;max-width:58rem;margin:2rem auto;
padding:0 1rem}
table{border-collapse:collapse;margin:.6rem 0}
td,th{border-bottom:1px solid #d9dee3;padding:.25rem .7rem;text-align:right}
td:first-child,th:first-child{text-align:left}
pre{background:#f3f5f7;padding:.8rem;overflow:auto;font-size:13px}
svg{max-width:100%;height:auto}
.verdict{font-size:1.1rem;border-left:4px solid #d98324;padding-left:.8rem}
h2{margin-top:2rem}
"""


def html(
    order: Order,
    tuned: Tuned,
    judgement: Judgement,
    difference: str,
    *,
    currency: str,
    made: str = "",
) -> str:
    """The whole page. ``difference``: of the site file; empty: no change is recommended."""
    metrics = [METRICS[name] for name in order.metrics]
    titles = {metric.name: metric.title for metric in metrics}
    before, after = judgement.today, judgement.figures
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>berth tune</title>",
        f"<style>{_STYLE}</style><h1>Tune of {escape(order.site)}</h1>",
        f"<p class=verdict>{escape(judgement.reason)}</p>",
        f"<p>{escape(_how(order, tuned, judgement))}</p>",
        "<h2>On the test weeks</h2>",
        differences_table(judgement.differences, currency),
        f"<p>{escape(_counted(before, after))}</p>",
        "<h2>The recommended site file</h2>",
        f"<pre>{escape(difference)}</pre>" if difference else "<p>As it is.</p>",
        *_why(judgement.recommended if difference else None),
        "<h2>Trials on the training weeks</h2>",
        pictures.front(tuned, judgement, list(titles.values())),
        front_table(tuned, metrics, currency),
        "<h2>Waits</h2>",
        pictures.waits(before, after),
        "<h2>Use</h2>",
        pictures.use(before, after),
        "<h2>When and where jobs ran</h2>",
        pictures.gantt(before, after),
        "<h2>Winners and losers</h2>",
        pictures.users(before, after),
    ]
    if tuned.importance:
        parts += ["<h2>What matters</h2>", pictures.importance(tuned.importance, titles)]
    made = made or datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts.append(f"<p><small>berth tune, {escape(made)}, jobs of {escape(order.trace)}</small></p>")
    return "\n".join(parts) + "</html>\n"


def shown(metric: Metric, value: float, currency: str) -> str:
    """A value of a metric with its unit."""
    if metric.unit == "s":
        return format_seconds(value)
    unit = currency if metric.unit == "currency" else metric.unit
    return f"{value:.4g} {unit}".rstrip()


def differences_table(found: Iterable[Difference], currency: str) -> str:
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
    return table(("metric", "today's", "tuned", "change", "95 % interval"), rows)


def front_table(tuned: Tuned, metrics: Sequence[Metric], currency: str) -> str:
    """The trials that no other beats in every metric, today's first."""
    names = [name for name in PARAMETERS if any(name in one.values for one in tuned.front)]
    rows = []
    today = () if tuned.today is None else (tuned.today,)
    for one in (*today, *(t for t in tuned.front if t not in today))[:MOST_ROWS]:
        values = [_value(one.values.get(name)) for name in names]
        scores = [shown(m, s, currency) for m, s in zip(metrics, one.scores, strict=True)]
        label = "today's" if one in today else f"trial {one.number}"
        rows.append((label, *scores, *values))
    return table(("", *(m.title for m in metrics), *names), rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """HTML; empty where there are no rows."""
    made = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    return f"<table><tr>{heads}</tr>{made}</table>" if made else ""


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
    return (
        f"Of {before.jobs} jobs {len(before.wait_s)} ended under today's policy and "
        f"{len(after.wait_s)} under the tuned one; killed by their time limit: {before.killed} and "
        f"{after.killed}. Nobody knows what {before.unjudged} and {after.unjudged} of them would "
        "have done elsewhere: they stayed where they were."
    )


def _why(recommended: Tried | None) -> list[str]:
    if recommended is None:
        return []
    rows = [(n, _value(v), PARAMETERS[n].why) for n, v in recommended.values.items()]
    return [table(("key of [policy]", "value", "what it does"), rows)]
