"""``berth pilot ranks``: what a pilot job runs after each launch of a parallel program."""

from __future__ import annotations

import os
from pathlib import Path

import click

from berth.pilot.documents import read_json, write_json
from berth.pilot.errors import BerthError
from berth.pilot.profile import Profile
from berth.pilot.ranks import added, busiest, counts_in, job_nodes, records_in, with_ranks


@click.command(epilog="Example: berth pilot ranks app.ranks --into app.profile.json")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--into",
    "profile",
    required=True,
    type=click.Path(path_type=Path),
    help="Profile of rank 0 in the same launch.",
)
@click.option("--counted", is_flag=True, help="Add the counters of the second launch.")
def ranks(folder: Path, profile: Path, *, counted: bool) -> None:
    """Put what the ranks left in FOLDER into rank 0's Profile.

    After the first launch: time and memory of every rank; the busiest one's number is printed.
    With --counted, after the second: the counters.
    """
    found = read_json(profile, Profile)
    if not counted:
        records = records_in(folder)
        write_json(profile, with_ranks(found, records, nodes=job_nodes(os.environ)))
        click.echo(busiest(records))
        return
    counts = counts_in(folder)
    write_json(profile, added(found, counts))
    if not counts or not all(one.succeeded for one in counts):
        why = "; ".join(text for one in counts for text in one.warnings)
        raise BerthError(why or "the counted run did not complete")
