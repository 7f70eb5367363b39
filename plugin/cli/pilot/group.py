"""``berth pilot``: everything that measures."""

from __future__ import annotations

import click

from berth.plugin.cli import LazyGroup

PILOT_COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("berth.plugin.cli.pilot.run:run", "Measure one program and write its Profile."),
    "campaign": (
        "berth.plugin.cli.pilot.campaign:campaign",
        "Profile every kernel of the reference suite.",
    ),
    "bench": ("berth.plugin.cli.pilot.bench:bench", "Benchmark this machine: its Signature."),
    "dl": (
        "berth.plugin.cli.pilot.dl:dl",
        "Measure deep-learning models: latency, memory, energy.",
    ),
    "import": (
        "berth.plugin.cli.pilot.importing:import_",
        "Make Profiles from the files of other tools.",
    ),
    "node": (
        "berth.plugin.cli.pilot.steps:node",
        "Benchmark a node and time the kernels (calibration jobs run this).",
    ),
    "link": (
        "berth.plugin.cli.pilot.steps:link",
        "Measure what connects two nodes (calibration jobs run this).",
    ),
    "submit": (
        "berth.plugin.cli.pilot.submit:submit",
        "Measure it in a job on the reference partition.",
    ),
    "count": (
        "berth.plugin.cli.pilot.steps:count",
        "Add one rank's counters to a Profile (pilot jobs run this).",
    ),
    "ranks": (
        "berth.plugin.cli.pilot.steps:ranks",
        "Put what every rank left into a Profile (pilot jobs run this).",
    ),
    "deliver": (
        "berth.plugin.cli.pilot.deliver:deliver",
        "Bring a pilot job's Profile home (pilot jobs run this).",
    ),
}


@click.group(cls=LazyGroup, lazy=PILOT_COMMANDS)
def pilot() -> None:
    """Measure a program, a machine, or a suite of kernels."""
