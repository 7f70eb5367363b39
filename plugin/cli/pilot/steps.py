"""Commands that Berth's own jobs run: ``berth pilot node`` and ``link`` in calibration jobs,
``ranks`` in pilot jobs of parallel programs."""

from __future__ import annotations

import os
import platform
import shlex
from pathlib import Path

import click

from berth.pilot.documents import read_json, write_json
from berth.pilot.errors import PilotError, UsageError
from berth.pilot.gpu.device import opened
from berth.pilot.network.links import in_words, measure_link
from berth.pilot.node import measure_gpu_node, measure_node
from berth.pilot.options import check_name
from berth.pilot.profile import Profile
from berth.pilot.ranks import job_nodes, records_in, with_ranks
from berth.pilot.suite import build_suite
from berth.plugin.cli.options import DIRECTORY, PATH, WORDS
from berth.plugin.cli.pilot.common import check_output, progress
from berth.plugin.cli.pilot.gpu import base_platform


@click.command(epilog="Example: berth pilot node --name our-node --into node1.json")
@click.option("--name", required=True, help="Name of the platform that this node is.")
@click.option("--node", help="Name of this node in the scheduler. Default: the host's name.")
@click.option(
    "--into",
    required=True,
    type=PATH,
    help="File to write the result to; what it holds is not measured again.",
)
@click.option("--kernels", type=WORDS, default=(), help="Only these, as Stream_TRIAD,Basic_DAXPY.")
@click.option("--full", is_flag=True, help="Minutes rather than one minute: each step longer.")
@click.option("--gpu", is_flag=True, help="Measure the node's GPU instead (seconds).")
def node(
    name: str,
    node: str | None,
    into: Path,
    kernels: tuple[str, ...],
    *,
    full: bool,
    gpu: bool,
) -> None:
    """Benchmark this node and time the reference kernels on one core.

    Calibration jobs run this. The node should do nothing else meanwhile.
    """
    check_name("--name", name)
    check_output(into)
    here = node or platform.node()
    with progress() as say:
        if gpu:
            measurement = measure_gpu_node(
                into, opened, base_platform, name=name, node=here, say=say
            )
        else:
            measurement = measure_node(
                into, build_suite, name=name, node=here, kernels=kernels, full=full, say=say
            )
    for text in measurement.problems:
        click.echo(f"warning: {text}", err=True)
    if not measurement.complete:
        raise PilotError(
            f"nothing was measured: {'; '.join(measurement.problems) or 'no kernel ran'}"
        )
    click.echo(f"{measurement.node}: {len(measurement.seconds)} kernels timed, written to {into}")


@click.command(
    epilog="Example: berth pilot link --nodes n1,n2 --into link.json "
    '--launcher "srun -n {ranks} --ntasks-per-node={each}"'
)
@click.option("--nodes", required=True, help="The two nodes, as the scheduler calls them.")
@click.option("--into", required=True, type=PATH, help="File to write the result to.")
@click.option(
    "--launcher",
    required=True,
    help="What starts a command on both nodes of this job, with {ranks} in all and {each} a node.",
)
def link(nodes: str, into: Path, launcher: str) -> None:
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
        measurement = measure_link(into, nodes=named, launcher=words, say=say)
    if measurement.without_mpi:
        click.echo(f"warning: not by MPI: {measurement.without_mpi}", err=True)
    interconnect = measurement.interconnect
    if interconnect is None:
        raise PilotError(f"nothing was measured: {'; '.join(measurement.problems)}")
    click.echo(f"{nodes}: {in_words(interconnect)}, written to {into}")


@click.command(epilog="Example: berth pilot ranks app.ranks --into app.profile.json")
@click.argument("folder", type=DIRECTORY)
@click.option(
    "--into", "profile", required=True, type=PATH, help="Profile of rank 0 in the same launch."
)
def ranks(folder: Path, profile: Path) -> None:
    """Put the time and memory of the ranks, which they left in FOLDER, into rank 0's Profile."""
    records = records_in(folder)
    rank_0 = read_json(profile, Profile)
    write_json(profile, with_ranks(rank_0, records, nodes=job_nodes(os.environ)))
