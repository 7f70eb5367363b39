"""``berth pilot count``: what a pilot job starts as rank 0 of its second launch."""

from __future__ import annotations

import os
from pathlib import Path

import click

from berth.pilot.documents import read_json, write_json
from berth.pilot.errors import BerthError
from berth.pilot.launch import Order, resolve_command
from berth.pilot.profile import Profile
from berth.pilot.ranks import added, count_once


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog="Example: srun -n 1 berth pilot count --into app.profile.json -- ./app",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--into",
    "profile",
    required=True,
    type=click.Path(path_type=Path),
    help="Profile of the same rank in an earlier launch.",
)
@click.option(
    "--leave",
    type=click.Path(path_type=Path),
    help="Write the counters there, for `berth pilot ranks`; the Profile stays as it is.",
)
@click.option("--rank", type=click.IntRange(min=0), default=0, help="Which rank this is.")
@click.option("--max-slowdown", default=100.0, show_default=True, help="See berth pilot run.")
@click.option("--time-limit", default=600.0, show_default=True, help="Seconds at most.")
def count(
    command: tuple[str, ...],
    *,
    profile: Path,
    leave: Path | None,
    rank: int,
    max_slowdown: float,
    time_limit: float,
) -> None:
    """Run COMMAND once, count what it does, and add that to a Profile.

    For one rank of a parallel program: its counters then stand for all ranks.
    """
    found = read_json(profile, Profile)
    env = dict(os.environ)
    counted = count_once(
        Order(resolve_command(command, env), env, discard=True),
        rank=rank,
        native_s=0.0 if found.runtime is None else found.runtime.median_s,
        max_slowdown=max_slowdown,
        left_s=time_limit,
    )
    if leave is not None:
        write_json(leave, counted)
    else:
        write_json(profile, added(found, [counted]))
    if not counted.succeeded:
        raise BerthError("; ".join(counted.warnings) or "the counted run did not complete")
