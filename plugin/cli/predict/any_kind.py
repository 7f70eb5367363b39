"""``berth predict`` for kinds of workload without a view of their own: the forecast as it is."""

from __future__ import annotations

import json

import click

from berth.plugin.cli.output.forecast_text import (
    best_points,
    doubts,
    forecast_json,
    per,
    sources_text,
    table,
    usable,
)
from berth.plugin.cli.predict.asked import Asked
from berth.plugin.workloads.files import amount_text, title


def predict_any(asked: Asked) -> None:
    """Rank platforms by the forecast's time."""
    asked.check("--picture")
    workload, platforms = asked.workload, asked.chosen()
    forecast = asked.forecast(platforms)
    rows = best_points(forecast)
    asked.draw_times((one.platform, one.runtime_s, usable(one)) for one in rows)
    names = [one.platform for one in rows] if asked.why else []
    each = asked.forecaster.explain_each(
        workload, [platforms[name] for name in names], asked.platforms, reference=asked.reference
    )
    reasons = dict(zip(names, each, strict=True))
    if asked.as_json:
        document = dict(forecast_json(forecast))
        if reasons:
            document["explanations"] = [
                {"platform": name, "family": family, "summary": found.summary}
                for name, by_family in reasons.items()
                for family, found in by_family.items()
            ]
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(
        f"{workload.name}: {title(workload.kind)}, {amount_text(workload.amount)}; times "
        f"{per(forecast)}; bundle {forecast.bundle or 'none'}\n"
    )
    click.echo(table(forecast, rows))
    for line in doubts(rows):
        click.echo(line)
    for name, by_family in reasons.items():
        click.echo(f"\n{name}")
        for line in sources_text(forecast, name):
            click.echo(f"  {line}")
        for found in by_family.values():
            click.echo(f"  {found.summary}")
