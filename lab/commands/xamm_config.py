"""``berth xamm``: abstract machine models, training and test from one configuration file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from berth.plugin.cli.columns import columns
from berth.plugin.cli.training_input import command_line
from lab.commands.inputs import require_networks


@click.command(epilog="Example: berth xamm xamm.toml")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def xamm(config: Path, as_json: bool) -> None:
    """Do what CONFIG (TOML) asks for: amm, train, test; it trains where no model is given."""
    require_networks("xAMM")
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
