"""``berth pilot``: everything that measures."""

from __future__ import annotations

import click

from berth.plugin.cli import LazyGroup

PILOT_COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("berth.plugin.cli.pilot_run:run", "Measure one program and write its Profile."),
    "campaign": (
        "berth.plugin.cli.pilot_campaign:campaign",
        "Profile every kernel of the reference suite.",
    ),
}


@click.group(cls=LazyGroup, lazy=PILOT_COMMANDS)
def pilot() -> None:
    """Measure a program, a machine, or a suite of kernels."""
