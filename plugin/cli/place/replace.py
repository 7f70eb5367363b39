"""``berth place replace``: decides again on pending jobs that Berth placed, and moves them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.options import answer, installed_site_option, json_option
from berth.plugin.scheduler.registry import open_scheduler

if TYPE_CHECKING:
    from berth.plugin.scheduler import Replacing


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOBID...]")
@click.option("--all", "all_", is_flag=True, help="Look at every pending job that Berth placed.")
@click.option(
    "--apply", "apply_", is_flag=True, help="Move them; without this, only say what would be moved."
)
@installed_site_option
@json_option
def replace(jobs: Sequence[str], all_: bool, apply_: bool, site_file: Path, json_: bool) -> None:
    """Ask Berth again about pending jobs that it has placed, and move them with --apply.

    Only where the scheduler can move a pending job: Flux can, Slurm cannot. Only jobs whose queue
    Berth chose are looked at; only the queue and the time limit of a pending job can be changed.
    Each answer is a recorded decision, each move is logged.

    \b
    Example:
      berth place replace --all
      berth place replace --apply f2Ppor5M
    """
    from berth.plugin.site import load_site  # noqa: PLC0415 - pydantic is slow to import

    if bool(jobs) == all_:
        raise UsageError("say which jobs: JOBID..., or --all")
    site = load_site(site_file)
    logging.basicConfig(level=logging.INFO, format="berth: %(message)s")

    found = list(open_scheduler(site).replace_pending(jobs, site, apply=apply_))
    lines = "\n".join(map(_line, found)) or "no pending job was placed by Berth"
    answer(lines, [asdict(one) for one in found], json_=json_)


def _line(one: Replacing) -> str:
    if one.to is None:
        return f"{one.job}  stays in {one.queue}: {one.reason}"
    verb = "moved" if one.moved else "would move"
    return f"{one.job}  {verb} from {one.queue} to {one.to}: {one.reason}"
