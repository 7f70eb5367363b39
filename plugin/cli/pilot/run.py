"""``berth pilot run``: measures a program on this machine and prints its Profile as tables."""

from __future__ import annotations

import fcntl
import os
import resource
import stat
import struct
import sys
import termios
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.collectors.registry import COLLECTORS
from berth.pilot.documents import to_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.options import PilotOptions, make_plan
from berth.pilot.profile import Profile, Target
from berth.pilot.run_pilot import run_pilot
from berth.pilot.runs_on import Overrides
from berth.plugin.cli.options import (
    COUNTS,
    NUMBERS,
    PATH,
    POSITIVE,
    UNNAMED_PLATFORM,
    WORDS,
    Listed,
    platform_option,
    site_option,
)
from berth.plugin.cli.pilot.common import check_output, keep, must_count, progress
from berth.plugin.installed_site import Installation
from berth.plugin.report.of_profile import profile_report
from berth.plugin.report.terminal import report_text

if TYPE_CHECKING:
    from berth.plugin.cli.pilot.deliver import Destination
    from berth.plugin.site.site import Site


TARGETS = Listed("targets", Target)


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog="Example: berth pilot run --sizes 100,200 -o app.json -- ./app --cells {size}",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", help="Name of the profile [default: the program's file name].")
@platform_option
@click.option("--output", "-o", type=PATH, help="Write the Profile here.")
@click.option("--json", "json_", is_flag=True, help="Print the Profile as JSON.")
@click.option("--size", type=float, help="Problem size; replaces {size} in the command.")
@click.option("--sizes", type=NUMBERS, default=(), help="Also time these sizes, as 100,200,400.")
@click.option("--threads-sweep", type=COUNTS, default=(), help="Also time with 1,2,4 threads.")
@click.option("--repeats", type=int, help="Native runs [default: 2 from 0.5 to 10 s, else 1].")
@click.option(
    "--count",
    is_flag=True,
    help="Also count instructions and misses, under emulation: some 25 times its processor time.",
)
@click.option("--time-limit", "time_limit_s", default=600.0, help="Seconds for the whole pilot.")
@click.option(
    "--count-limit",
    "count_limit_s",
    default=60.0,
    help="Counting takes at most this much processor time (s): counts are then of the first part.",
)
@click.option(
    "--collectors",
    type=WORDS,
    default=(),
    help=f"Only these of {','.join(COLLECTORS.own())}.",
)
@click.option("--runs-on", type=TARGETS, default=(), help="Say what it runs on: cpu, cuda, hip.")
@click.option("--needs", type=WORDS, default=(), help="Instruction sets that it needs, as avx512f.")
@click.option("--threads", type=POSITIVE, help="Threads that it uses.")
@click.option("--ranks", type=POSITIVE, help="MPI ranks that it uses.")
@click.option(
    "--follows-shape",
    is_flag=True,
    help="Its job script takes SLURM_NTASKS and SLURM_CPUS_PER_TASK: both may change.",
)
@click.option("--stdin", help="File to give as standard input [default: empty].")
@click.option(
    "--in-place",
    is_flag=True,
    help="What it writes stays, however often it runs; else it runs where its writes are dropped.",
)
@click.option("--counters", is_flag=True, help="Also show the table of counters.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the program's output.")
@click.option(
    "--store",
    "to_store",
    is_flag=True,
    help="Add the Profile to the site's store (--site, or BERTH_STORE) and predict from it.",
)
@click.option(
    "--replace",
    "replaces",
    is_flag=True,
    help="With --store: in place of a workload of that name.",
)
@site_option
def run(
    command: tuple[str, ...],
    *,
    platform: str,
    output: Path | None,
    json_: bool,
    collectors: tuple[str, ...],
    runs_on: tuple[Target, ...],
    needs: tuple[str, ...],
    threads: int | None,
    ranks: int | None,
    follows_shape: bool,
    quiet: bool,
    counters: bool,
    to_store: bool,
    replaces: bool,
    site_file: Path | None,
    **settings: Any,
) -> None:
    """Run COMMAND here, measure it, and describe it in a Profile.

    The command's output goes to standard error; the result (or --json) to standard output. Exit
    status 1 when the command failed: what was measured until then is kept.
    """
    chosen = collectors or tuple(COLLECTORS.load_all())
    options = PilotOptions(
        command=command,
        platform=platform,
        collectors=chosen,
        show_output=not quiet,
        overrides=Overrides(runs_on, needs, threads, ranks, follows_shape=follows_shape),
        **settings,
    )
    check_output(output)
    if replaces and not to_store:
        raise UsageError("--replace is for --store")
    home = _home(options, site_file, replace=replaces) if to_store else None
    if home is not None and home.site is not None and platform == UNNAMED_PLATFORM:
        options = replace(options, platform=_named_here(home.site))
    if home is not None and home.site is not None and not options.count:
        options = replace(options, count=must_count(home.site))
    if options.stdin is None and _gets_input():
        click.echo("standard input is not passed on to the program: --stdin FILE is", err=True)
    with progress() as say:
        profile = run_pilot(options, say, lambda sentence: click.echo(sentence, err=True))
    if output is not None:
        keep(output, profile)
    if json_:
        click.echo(to_json(profile), nl=False)
    else:
        report = profile_report(profile, counters=counters, cost_s=_processor_s())
        click.echo(report_text(report))
        if output is not None:
            click.echo(f"\nwritten to {output}")
    if home is not None and profile.complete:
        _file(home, profile, output, quiet=json_)
    if not profile.complete:
        if home is not None:
            click.echo("not added to the store: the run did not complete", err=True)
        raise click.exceptions.Exit(1)


def _gets_input() -> bool:
    """Return whether standard input is a pipe with something in it, or a file that is not empty."""
    try:
        status = os.fstat(sys.stdin.fileno())
        waiting = struct.unpack("i", fcntl.ioctl(sys.stdin, termios.FIONREAD, bytes(4)))[0]
    except (OSError, ValueError):
        return False
    return waiting > 0 and (stat.S_ISFIFO(status.st_mode) or stat.S_ISREG(status.st_mode))


def _processor_s() -> float:
    """Return the processor time in seconds of this process and of all that it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _home(options: PilotOptions, site_file: Path | None, *, replace: bool) -> Destination:
    """Return the store for the profile. Raises UsageError before anything is measured."""
    from berth.plugin.cli.pilot.deliver import destination  # noqa: PLC0415 - slow, only when asked

    name = make_plan(options).name
    installation = Installation(site_file, os.environ.get("BERTH_STORE"))
    return destination(name, installation, replace=replace)


def _named_here(site: Site) -> str:
    """Return the name of the site's platform that this machine is; where there is none, say so and
    return the name for machines without one."""
    from berth.plugin.cli.pilot.this_machine import platform_of_this_machine  # noqa: PLC0415

    name = platform_of_this_machine(site.platforms)
    if name is None:
        click.echo(
            "no platform of the site names this machine's processor, so that predictions for the "
            "site start from unknown hardware: run the pilot on one of its nodes (berth pilot "
            "submit), or have the nodes measured (berth site calibrate)",
            err=True,
        )
        return UNNAMED_PLATFORM
    click.echo(f"this machine is platform {name} of the site", err=True)
    return name


def _file(home: Destination, profile: Profile, output: Path | None, *, quiet: bool) -> None:
    """Add the Profile to the store; if that fails, write the Profile to a file and raise
    BerthError."""
    try:
        click.echo(home.add(profile), err=quiet)
    except BerthError:
        if output is None:
            output = Path(f"{profile.name}.profile.json")
            keep(output, profile)
        click.echo(f"the profile is kept in {output}", err=True)
        raise
