"""``berth pilot node``: what calibration jobs run on each node."""

from __future__ import annotations

import platform
from pathlib import Path

import click

from berth.pilot.errors import PilotError
from berth.pilot.node import doubts, measure_node
from berth.pilot.options import check_name
from berth.pilot.suite import build_suite
from berth.plugin.cli.options.common import answer, json_option
from berth.plugin.cli.pilot.progress import progress
from berth.plugin.cli.pilot.run import check_output, parse_words


@click.command(epilog="Example: berth pilot node --name our-node --into node1.json")
@click.option("--name", required=True, help="Name of the platform that this node is.")
@click.option("--node", help="As the scheduler calls this node. Default: the host's name.")
@click.option(
    "--into", required=True, type=click.Path(path_type=Path), help="Result; gone on with."
)
@click.option("--kernels", callback=parse_words, help="Only these, as Stream_TRIAD,Basic_DAXPY.")
@click.option("--full", is_flag=True, help="Minutes rather than one minute: each step longer.")
@json_option
def node(
    name: str,
    node: str | None,
    into: Path,
    kernels: tuple[str, ...],
    *,
    full: bool,
    json_: bool,
) -> None:
    """Benchmark this node and time the reference kernels on one core.

    Calibration jobs run this. The node should do nothing else meanwhile.
    """
    check_name("--name", name)
    check_output(into)
    with progress() as say:
        found = measure_node(
            into,
            build_suite,
            name=name,
            node=node or platform.node(),
            kernels=kernels,
            full=full,
            say=say,
        )
    for text in (*found.problems, *doubts(found)):
        click.echo(f"warning: {text}", err=True)
    if not found.complete:
        raise PilotError(f"nothing was measured: {'; '.join(found.problems) or 'no kernel ran'}")
    answer(
        f"{found.node}: {len(found.seconds)} kernels timed, written to {into}",
        {"node": found.node, "platform": name, "kernels": len(found.seconds), "file": str(into)},
        json_=json_,
    )
