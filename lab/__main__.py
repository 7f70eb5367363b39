"""``python -m lab``: train what is shipped, evaluate it beside its baselines."""

from __future__ import annotations

import sys

import click

from berth.pilot.errors import BerthError
from lab.commands.evaluate_command import evaluate
from lab.commands.train_command import train
from lab.commands.xamm_config import xamm


@click.group()
def main() -> None:
    """Data sets, training of the shipped bundles, baselines, published systems, evaluation."""


main.add_command(train)
main.add_command(evaluate)
main.add_command(xamm)

if __name__ == "__main__":
    try:
        main()
    except BerthError as error:
        click.echo(f"lab: {error}", err=True)
        sys.exit(1)
