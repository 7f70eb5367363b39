"""``berth mig``: what GPUs can be cut into, what they should be cut into, and cutting them."""

from __future__ import annotations

import click

from berth.plugin.cli import LazyGroup

MIG_COMMANDS: dict[str, tuple[str, str]] = {
    "show": (
        "berth.plugin.cli.mig.show:show",
        "Geometry of a GPU model; layouts and free room of a fleet.",
    ),
    "recommend": (
        "berth.plugin.cli.mig.recommend:recommend",
        "Name the slice for a workload, and what it would do on each.",
    ),
    "plan": (
        "berth.plugin.cli.mig.plan:plan",
        "Plan layouts for the jobs that are coming.",
    ),
    "apply": (
        "berth.plugin.cli.mig.apply:apply",
        "Cut this machine's GPUs as a plan or a mig-parted file says.",
    ),
    "assert": (
        "berth.plugin.cli.mig.apply:assert_",
        "Check that this machine's GPUs are cut as a file says.",
    ),
    "auto": (
        "berth.plugin.cli.mig.auto:auto",
        "Plan for the jobs that wait and re-cut where that is worth it.",
    ),
    "export": (
        "berth.plugin.cli.mig.export:export",
        "Write a plan or a fleet as mig-parted's YAML.",
    ),
}


@click.group(cls=LazyGroup, lazy=MIG_COMMANDS)
def mig() -> None:
    """Cut GPUs into slices (NVIDIA MIG) that fit the jobs that are coming.

    Example: berth mig plan --fleet fleet.json --jobs jobs.json --output plan.json
    """
