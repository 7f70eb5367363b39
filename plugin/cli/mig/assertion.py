"""``berth mig assert``: do the GPUs look as a file says?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from berth.pilot.errors import BerthError
from berth.plugin.cli.mig.apply import preview_text
from berth.plugin.cli.options.common import SentenceJson
from berth.plugin.mig.access import open_access
from berth.plugin.mig.apply import previews
from berth.plugin.mig.settings import load
from berth.plugin.mig.target import checked, read_target
from berth.plugin.mig.wire import preview_data


@click.command(name="assert")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--selected-config", "-c", "selected", help="Name in a mig-parted file.")
@click.option(
    "--json", "json_", is_flag=True, cls=SentenceJson, help="Print the differences as JSON."
)
def assert_(file: Path, selected: str | None, json_: bool) -> None:
    """Check that this machine's GPUs are cut as FILE says: a plan or mig-parted's YAML.

    Exit status 0 where they are, 1 where they are not. A plan fixes the places of the instances;
    a mig-parted file only their numbers. Reads only.

    Example: berth mig assert mig.yaml -c all-1g.5gb
    """
    settings = load()
    fleet = open_access(settings).inventory()
    node = settings.node.node if settings.node else None
    # What the plan was made from does not matter here, only what it leads to.
    target = read_target(file, fleet, selected=selected, node=node, around_busy=False)
    target = replace(target, expected=None)
    found = previews(fleet, checked(target, fleet))
    different = tuple(p for p in found if p.destroy or p.create)
    if json_:
        click.echo(json.dumps({"holds": not different, "gpus": preview_data(different)}))
    elif not different:
        click.echo(f"All {len(found)} GPUs are as {file} says.")
    else:
        click.echo("\n".join(preview_text(different)))
    if different:
        raise BerthError(f"{len(different)} of {len(found)} GPUs are not as {file} says")
