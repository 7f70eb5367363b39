"""``berth evaluate``: how good predictions are on what nothing was fitted on."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lab.commands import registry
from lab.commands.asked import Asked


@click.command(epilog="Example: berth evaluate --report report/")
@click.argument("profiles", required=False, type=click.Path(path_type=Path))
@click.option(
    "--task",
    type=click.Choice(tuple(registry.TASKS)),
    default="kernels",
    show_default=True,
    help=registry.evaluation_help(),
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="For --task relative, xamm and vae: how many seeds, from --seed up.",
)
@click.option(
    "--family",
    "groups",
    multiple=True,
    help="For --task relative, trust, few-shot, dl: only these.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default="all cores"
)
@click.option("--report", type=click.Path(path_type=Path), help="Folder for report.md and JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--platforms", "folder", type=click.Path(path_type=Path), help="A site's own platform files."
)
@click.option("--reference", help="With --task relative and PROFILES: where programs are piloted.")
def evaluate(
    *,
    profiles: Path | None,
    task: str,
    seed: int,
    seeds: int,
    groups: tuple[str, ...],
    jobs: int,
    report: Path | None,
    as_json: bool,
    folder: Path | None,
    reference: str | None,
) -> None:
    """Nested leave-one-kernel-out over PROFILES (default: the committed kernel profiles).

    With --task relative, PROFILES are a site's own, of the same workloads on several platforms
    (a folder, JSON or JSON lines, and CSV of times).
    """
    registry.evaluate(
        Asked(
            task=task, profiles=() if profiles is None else (profiles,), reference=reference,
            seed=seed, folder=folder, seeds=range(seed, seed + seeds), groups=groups, jobs=jobs,
            report=report, as_json=as_json,
        )
    )  # fmt: skip
