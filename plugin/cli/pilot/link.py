"""``berth pilot link``: what calibration jobs run on two nodes of a kind."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from berth.pilot.errors import PilotError, UsageError
from berth.pilot.network.links import in_words, measure_link
from berth.plugin.cli.options.common import answer, json_option
from berth.plugin.cli.pilot.progress import progress
from berth.plugin.cli.pilot.run import check_output


@click.command(
    epilog="Example: berth pilot link --nodes n1,n2 --into link.json "
    '--launcher "srun -n {ranks} --ntasks-per-node={each}"'
)
@click.option("--nodes", required=True, help="The two nodes, as the scheduler calls them.")
@click.option("--into", required=True, type=click.Path(path_type=Path), help="Result.")
@click.option(
    "--launcher",
    required=True,
    help="What starts a command on both nodes of this job, with {ranks} in all and {each} a node.",
)
@json_option
def link(nodes: str, into: Path, launcher: str, *, json_: bool) -> None:
    """Measure latency, bandwidth and all-reduce between the two nodes of this job.

    By MPI where mpicc and a launcher that fits are there, else over TCP.
    """
    named = tuple(nodes.split(","))
    if len(named) != 2 or not all(named):
        raise UsageError(f"--nodes {nodes!r} is not two names, as n1,n2")
    try:
        words = shlex.split(launcher)
        [word.format(ranks=2, each=1) for word in words]
    except (ValueError, KeyError, IndexError):
        words = []
    if not words:
        raise UsageError(f"--launcher {launcher!r} is no command with {{ranks}} and {{each}}")
    check_output(into)
    with progress() as say:
        found = measure_link(into, nodes=named, launcher=words, say=say)
    if found.without_mpi:
        click.echo(f"warning: not by MPI: {found.without_mpi}", err=True)
    made = found.interconnect
    if made is None:
        raise PilotError(f"nothing was measured: {'; '.join(found.problems)}")
    answer(
        f"{nodes}: {in_words(made)}, written to {into}",
        {"nodes": list(named), "file": str(into), "interconnect": made.model_dump(mode="json")},
        json_=json_,
    )
