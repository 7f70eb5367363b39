"""``berth pilot run``: measure a program here, and show its Profile as tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from berth.pilot.catalogue import BY_NAME, GROUPS
from berth.pilot.collectors.base import Stage
from berth.pilot.collectors.registry import COLLECTORS, names_of
from berth.pilot.documents import to_json, write_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.options import PilotOptions, make_plan
from berth.pilot.profile import Measurement, Profile, Quality, SizePoint, Target
from berth.pilot.run import run_pilot
from berth.pilot.runs_on import Overrides
from berth.pilot.units import counted, format_bytes, format_count, format_seconds
from berth.plugin.cli.options import Rare
from berth.plugin.cli.pilot.common import (
    check_output,
    parse_counts,
    parse_numbers,
    parse_words,
    progress,
)
from berth.plugin.report.csv_tables import record
from berth.plugin.report.parts import text_table

if TYPE_CHECKING:
    from berth.plugin.cli.pilot.deliver import Destination

_HEADER = ("counter", "value", "unit", "quality", "source")
WIDTH = 100
"""Columns of the table where there is no terminal to ask."""


def _targets(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[Target, ...]:
    try:
        return tuple(Target(word) for word in parse_words(context, parameter, value))
    except ValueError:
        known = ", ".join(target.value for target in Target)
        raise click.BadParameter(f"{value!r}: there are {known}") from None


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog="Example: berth pilot run --sizes 100,200 -o app.json -- ./app --cells {size}",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", help="Name of the profile [default: the program's file name].")
@click.option(
    "--platform",
    default=lambda: os.environ.get("BERTH_PLATFORM", "local"),
    help="Name of the platform that this is [default: $BERTH_PLATFORM, else local].",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write the Profile here.")
@click.option("--json", "as_json", is_flag=True, help="Print the Profile as JSON.")
@click.option("--size", type=float, help="Problem size; replaces {size} in the command.")
@click.option("--sizes", callback=parse_numbers, help="Also time these sizes, as 100,200,400.")
@click.option(
    "--threads-sweep", cls=Rare, callback=parse_counts, help="Also time with 1,2,4 threads."
)
@click.option("--repeats", default=3, show_default=True, help="Native runs; long ones get fewer.")
@click.option("--time-limit", default=600.0, show_default=True, help="Seconds for the whole pilot.")
@click.option(
    "--max-slowdown",
    cls=Rare,
    default=300.0,
    show_default=True,
    help="Emulation takes at most this times the native runtime (at least 10 s).",
)
@click.option(
    "--collectors",
    cls=Rare,
    callback=parse_words,
    help=f"Only these of {','.join(COLLECTORS.own())}.",
)
@click.option("--no-emulation", is_flag=True, help="Leave the emulated run out.")
@click.option("--runs-on", callback=_targets, help="Say what it runs on: cpu, cuda, hip.")
@click.option(
    "--needs", cls=Rare, callback=parse_words, help="Instruction sets that it needs, as avx512f."
)
@click.option("--threads", type=click.IntRange(min=1), help="Threads that it uses.")
@click.option("--ranks", type=click.IntRange(min=1), help="MPI ranks that it uses.")
@click.option(
    "--follows-shape",
    cls=Rare,
    is_flag=True,
    help="Its job script takes SLURM_NTASKS and SLURM_CPUS_PER_TASK: both may change.",
)
@click.option("--stdin", help="File to give as standard input [default: empty].")
@click.option(
    "--in-place",
    cls=Rare,
    is_flag=True,
    help="Run in the working folder itself, several times, not in private copies of it.",
)
@click.option("--quiet", "-q", is_flag=True, help="Do not show the program's output.")
@click.option(
    "--store",
    "to_store",
    is_flag=True,
    help="Add the Profile to the site's store (--site, or BERTH_STORE) and predict from it.",
)
@click.option(
    "--replace", cls=Rare, is_flag=True, help="With --store: in place of a workload of that name."
)
@click.option(
    "--site",
    "site_file",
    type=click.Path(path_type=Path),
    envvar="BERTH_SITE",
    help="Site file, with --store. Default: the installed one.",
)
def run(  # noqa: PLR0917
    command: tuple[str, ...],
    name: str | None,
    platform: str,
    output: Path | None,
    as_json: bool,
    size: float | None,
    sizes: tuple[float, ...],
    threads_sweep: tuple[int, ...],
    repeats: int,
    time_limit: float,
    max_slowdown: float,
    collectors: tuple[str, ...],
    no_emulation: bool,
    runs_on: tuple[Target, ...],
    needs: tuple[str, ...],
    threads: int | None,
    ranks: int | None,
    follows_shape: bool,
    stdin: str | None,
    in_place: bool,
    quiet: bool,
    to_store: bool,
    replace: bool,
    site_file: Path | None,
) -> None:
    """Run COMMAND here, measure it, and describe it in a Profile.

    The command's output goes to standard error; the table of counters (or --json) to standard
    output. Exit status 1 when the command failed: what was measured until then is kept.
    """
    chosen = collectors or tuple(COLLECTORS.load_all())
    if no_emulation:
        emulators = names_of(Stage.EMULATED)
        chosen = tuple(word for word in chosen if word not in emulators)
    options = PilotOptions(
        command=command,
        name=name,
        platform=platform,
        size=size,
        sizes=sizes,
        threads_sweep=threads_sweep,
        repeats=repeats,
        time_limit_s=time_limit,
        max_slowdown=max_slowdown,
        collectors=chosen,
        stdin=stdin,
        show_output=not quiet,
        in_place=in_place,
        overrides=Overrides(runs_on, needs, threads, ranks, follows_shape=follows_shape),
    )
    check_output(output)
    if replace and not to_store:
        raise UsageError("--replace is for --store")
    home = _home(options, site_file, replace=replace) if to_store else None
    with progress() as say:
        profile = run_pilot(options, say)
    if output is not None:
        write_json(output, profile)
    if as_json:
        click.echo(to_json(profile), nl=False)
    else:
        show(profile, output)
    if home is not None and profile.complete:
        _file(home, profile, output, quiet=as_json)
    if not profile.complete:
        if home is not None:
            click.echo("not added to the store: the run did not complete", err=True)
        raise click.exceptions.Exit(1)


def _home(options: PilotOptions, site_file: Path | None, *, replace: bool) -> Destination:
    """Raises UsageError before anything is measured."""
    from berth.plugin.cli.pilot.deliver import destination  # noqa: PLC0415 - slow, only when asked

    name = make_plan(options).name
    return destination(name, site_file, os.environ.get("BERTH_STORE"), replace=replace)


def _file(home: Destination, profile: Profile, output: Path | None, *, quiet: bool) -> None:
    """Put it into the store; where that fails keep the Profile in a file. Raises BerthError."""
    try:
        click.echo(home.add(profile), err=quiet)
    except BerthError:
        if output is None:
            output = Path(f"{profile.name}.profile.json")
            write_json(output, profile)
        click.echo(f"the profile is kept in {output}", err=True)
        raise


def show(profile: Profile, output: Path | None) -> None:
    """Print the profile as tables."""
    print_profile(profile)
    if output is not None:
        click.echo(f"\nwritten to {output}")


def print_profile(profile: Profile) -> None:
    """Print counters by group with unit, quality and source; then runtime, memory, warnings."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    groups = [(title, _rows(profile, group)) for group, title in GROUPS.items()]
    record(text_table("", _HEADER, [row for _, rows in groups for row in rows]))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _HEADER:
        table.add_column(title, justify="right" if title == "value" else "left", no_wrap=True)
    for title, rows in groups:
        if rows:
            table.add_row(f"[dim]{title}[/dim]")
        for row in rows:
            table.add_row(*row)
    console.print(f"[bold]{profile.name}[/bold] on {profile.platform}", markup=True)
    console.print(table)
    console.print()
    for line in summary(profile):
        console.print(line, markup=False, soft_wrap=True)


def summary(profile: Profile) -> list[str]:
    """Say in a line each runtime, memory, where it runs, what could not be had, and warnings."""
    lines = []
    runtime, runs_on = profile.runtime, profile.runs_on
    if runtime is not None:
        spread = format_seconds(runtime.spread_s)
        count = len(runtime.repeats_s)
        lines.append(
            f"runtime   {format_seconds(runtime.median_s)} (spread {spread}, {count} runs)"
        )
    if (peak := profile.peak_memory_bytes) is not None:
        lines.append(f"memory    {_memory(peak, profile)} of the host")
    if on_gpus := profile.value("gpu_memory_bytes"):
        lines.append(f"          {format_bytes(on_gpus)} of the GPUs")
    kinds = ", ".join(target.value for target in runs_on.targets)
    extensions = f" {' '.join(runs_on.instruction_sets)}" if runs_on.instruction_sets else ""
    lines.append(
        f"runs on   {kinds} ({runs_on.architecture}{extensions}), "
        f"{counted(runs_on.threads, 'thread')}, {counted(runs_on.ranks, 'rank')}"
    )
    for point in profile.sizes:
        memory = _memory(point.peak_memory_bytes, point)
        lines.append(f"size      {point.size:g}: {format_seconds(point.runtime_s)}, {memory}")
    for step in profile.scaling:
        lines.append(f"threads   {step.threads}: {format_seconds(step.runtime_s)}")
    if profile.one_thread_s is not None:
        lines.append(f"threads   1: {format_seconds(profile.one_thread_s)}")
    used = [report.name for report in profile.collectors if report.status == "used"]
    lines.append(f"measured  by {', '.join(used) or 'nothing'}")
    for report in profile.collectors:
        if report.status in ("absent", "failed"):
            lines.append(f"{report.status:9s} {report.name}: {report.detail}")
    lines.extend(f"warning   {text}" for text in profile.warnings)
    return lines


def _rows(profile: Profile, group: str) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for name, entry in BY_NAME.items():
        measurement = profile.counters.get(name)
        if entry.group != group or measurement is None or measurement.quality is Quality.MISSING:
            continue
        part = "" if measurement.complete else " (part)"
        quality = f"{measurement.quality.value}{part}"
        rows.append(
            (name, _value(measurement, entry.unit), entry.unit, quality, measurement.source)
        )
    return rows


def _memory(peak: float, of: Profile | SizePoint) -> str:
    return f"{format_bytes(peak)}{' at most' if of.peak_memory_is_bound else ''}"


def _value(measurement: Measurement, unit: str) -> str:
    value = measurement.value or 0.0
    if unit == "ratio":
        return f"{value:.4f}"
    if unit == "count" and value < 100_000:
        return f"{value:.0f}"
    return format_count(value)
