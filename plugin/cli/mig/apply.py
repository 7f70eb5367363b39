"""``berth mig apply`` and ``assert``: carry out a plan, or check that the GPUs match a plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.units import counted
from berth.plugin.cli.options import FILE, json_option, seconds_of
from berth.plugin.mig.access import open_access
from berth.plugin.mig.apply import ApplyReport, GpuPreview, previews, undoing
from berth.plugin.mig.errors import Busy
from berth.plugin.mig.settings import load
from berth.plugin.mig.target import checked, read_target

UNDONE = "The layout from before the last apply stands. Forth again: the same command."
OUTCOMES = {
    "new": "The new layout stands. Back to the old one: berth mig apply --undo --yes",
    "old": "The unfinished apply was rolled back; the layout from before it stands.",
    "unchanged": "Nothing had to be changed.",
}


@click.command()
@click.argument("file", required=False, type=FILE)
@click.option("--yes", is_flag=True, help="Do it; without this, only show what would be done.")
@click.option(
    "--selected-config", "-c", "selected", help="Name of the configuration in a mig-parted file."
)
@click.option("--wait", default="0s", help="Wait so long for busy slices.")
@click.option("--resume", is_flag=True, help="End an apply that was interrupted, without a FILE.")
@click.option("--undo", is_flag=True, help="Go back to before the last apply, without a FILE.")
@click.option("--enable-mig", is_flag=True, help="Switch MIG on where FILE needs it.")
@json_option
def apply(  # noqa: PLR0917 - one parameter an option
    file: Path | None,
    yes: bool,
    selected: str | None,
    wait: str,
    resume: bool,
    undo: bool,
    enable_mig: bool,
    json_: bool,
) -> None:
    """Cut this machine's GPUs as FILE says: a plan (JSON) or mig-parted's YAML.

    Only instances that are idle and that FILE does not keep are destroyed. Whatever fails, the
    layout is rolled back; an interrupted apply is ended by the next one, or by --resume.

    \b
    Example:
      berth mig apply plan.json --yes
      berth mig apply --undo --yes
    """
    if (file is not None) + resume + undo != 1:
        raise UsageError("give a FILE, or --resume or --undo without one")
    settings = load()
    gpus = open_access(settings, lambda text: click.echo(f"  {text}", err=True))
    if resume:
        _show_report(gpus.resume(), json_)
        return
    if file is None:
        target = undoing(Path(settings.state_dir))
    else:
        target = read_target(file, gpus.inventory(), selected=selected, node=settings.node_name)
    if not yes:
        _show_previews(gpus.preview(target), json_)
        return
    wait_s = seconds_of("--wait", wait)
    report = gpus.apply(target, wait_s=wait_s, enable_mig=enable_mig)
    _show_report(report, json_, OUTCOMES | {"new": UNDONE} if undo else OUTCOMES)


def _show_previews(previews: tuple[GpuPreview, ...], json_: bool) -> None:
    if json_:
        click.echo(json.dumps({"outcome": "preview", "gpus": [p.as_json() for p in previews]}))
        return
    click.echo("\n".join(preview_text(previews)))
    if any(p.destroy or p.create for p in previews):
        click.echo("Nothing was changed; --yes does it.")
    if any(p.busy for p in previews):
        raise Busy(
            "some of what would be destroyed is in use",
            hint="--yes would refuse now; --wait 30m waits for it",
        )


def _show_report(report: ApplyReport, json_: bool, outcomes: Mapping[str, str] = OUTCOMES) -> None:
    if json_:
        click.echo(json.dumps(report.as_json()))
        return
    lines = preview_text(report.gpus) if report.gpus else []
    if report.resumed and report.gpus:
        lines.insert(0, f"An interrupted apply was ended first: its {report.resumed} layout.")
    click.echo("\n".join([*lines, outcomes[report.outcome]]))


def preview_text(previews: tuple[GpuPreview, ...]) -> list[str]:
    """Return lines for people: for each GPU the instances that are destroyed, created and kept."""
    lines = []
    for p in previews:
        lines.append(f"GPU {p.index}  {p.name}")
        if not p.destroy and not p.create:
            lines.append(f"  as wanted  {_listed(p.keep)}")
            continue
        rows: tuple[tuple[str, Iterable[Any]], ...] = (
            ("destroy", p.destroy), ("create", p.create), ("stays", p.keep), ("in use!", p.busy),
        )  # fmt: skip
        lines += [f"  {word:9s}  {_listed(items)}" for word, items in rows if items]
    return lines or ["No GPU is concerned."]


def _listed(items: Iterable[Any]) -> str:
    return " ".join(sorted(map(str, items), key=lambda text: int(text.rpartition("@")[2]))) or "-"


@click.command(name="assert")
@click.argument("file", type=FILE)
@click.option("--selected-config", "-c", "selected", help="Name in a mig-parted file.")
@click.option("--json", "json_", is_flag=True, help="Print the differences as JSON.")
def assert_(file: Path, selected: str | None, json_: bool) -> None:
    """Check that this machine's GPUs are cut as FILE says: a plan or mig-parted's YAML.

    Exit status 0 where they are, 1 where they are not. A plan fixes the places of the instances;
    a mig-parted file only their numbers. Reads only.

    Example: berth mig assert mig.yaml -c all-1g.5gb
    """
    settings = load()
    fleet = open_access(settings).inventory()
    target = read_target(file, fleet, selected=selected, node=settings.node_name, around_busy=False)
    # Only the layout that the plan leads to matters here, not the fleet from which it was made.
    target = replace(target, expected=None)
    needed = previews(fleet, checked(target, fleet))
    different = tuple(p for p in needed if p.destroy or p.create)
    if json_:
        click.echo(json.dumps({"holds": not different, "gpus": [p.as_json() for p in different]}))
    elif not different:
        click.echo(f"As {file} says: {counted(len(needed), 'GPU')}.")
    else:
        click.echo("\n".join(preview_text(different)))
    if different:
        raise BerthError(f"not as {file} says: {len(different)} of {counted(len(needed), 'GPU')}")
