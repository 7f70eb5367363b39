"""xAMM: the paper's ablations with tables and pictures, or one configuration file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import command_line
from lab.experiments.options import Options
from lab.experiments.shown import show


def evaluate(options: Options) -> None:
    """Every ablation on the AIWC data set, or what ``config`` asks for."""
    if options.config is not None:
        by_config(options.config, as_json=options.as_json)
        return
    from berth.predictor.learning.resume import Resume  # noqa: PLC0415
    from lab.published.xamm import ablation, pictures  # noqa: PLC0415
    from lab.published.xamm.plan import (  # noqa: PLC0415
        NEW_TARGET,
        SCENARIOS,
        tried,
    )
    from lab.published.xamm.report import (  # noqa: PLC0415
        HEADER,
        SPLIT,
        table,
        write_report,
    )
    from lab.relative.data import aiwc_rows  # noqa: PLC0415

    seeds, report = options.every_seed, options.report
    rows, scenarios = aiwc_rows(), (*SCENARIOS, NEW_TARGET)
    with step_bar("ablations", ablation.steps(rows, seeds) * len(scenarios)) as advance:
        resume = Resume(options.unfinished)
        found = [
            ablation.ablate(rows, s, seeds=seeds, resume=resume, advance=advance) for s in scenarios
        ]
    if report is not None:
        names = pictures.bars(found, report)
        picture, parted = pictures.embeddings(rows, seeds[0], report)
        write_report(found, seeds, report, [*names, picture], parted)
    told = [f"Split: {SPLIT}."]
    for each in found:
        told += [
            f"\n{each.scenario.name}: {each.samples} held-out samples",
            columns(HEADER[1:], [row[1:] for row in table(each, tried(each.scenario))]),
        ]
    document = [row for each in found for row in ablation.as_rows(each)]
    show(options, document, "\n".join(told), file=None)


def by_config(config: Path, *, as_json: bool) -> None:
    """Do what CONFIG (TOML) asks for: amm, train, test; it trains where no model is given."""
    from lab.published.xamm.config import read_config  # noqa: PLC0415
    from lab.published.xamm.steps import run  # noqa: PLC0415

    wanted = read_config(config)
    done = run(wanted, config.parent, command_line())
    if as_json:
        trained = None if done.trained is None else done.trained.id
        click.echo(
            json.dumps(
                {
                    "trained": trained,
                    "machines": done.machines,
                    "tested": [asdict(tested) for tested in done.tested],
                    "written": [str(path) for path in done.written],
                },
                indent=1,
            )
        )
        return
    for path in done.written:
        click.echo(f"wrote {path}")
    if done.tested:
        header = ("target", "predictions", "with AMM", "MAPE (applications averaged)")
        click.echo(
            columns(
                header,
                [
                    (
                        t.target,
                        str(t.predictions),
                        "yes" if t.with_machines else "no",
                        f"{np.mean(list(t.mape.values())):.1%}" if t.mape else "no times",
                    )
                    for t in done.tested
                ],
                indent=0,
            )
        )
