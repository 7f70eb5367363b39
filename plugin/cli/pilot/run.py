"""``berth pilot run``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.pilot.collectors.base import Stage
from berth.pilot.collectors.registry import COLLECTORS, names_of
from berth.pilot.documents import to_json, write_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.options import PilotOptions, make_plan
from berth.pilot.profile import Profile, Target
from berth.pilot.run import run_pilot
from berth.pilot.runs_on import Overrides
from berth.plugin.cli.pilot.progress import progress
from berth.plugin.cli.pilot.show import print_profile

if TYPE_CHECKING:
    from berth.plugin.cli.pilot.stored import Destination


def parse_words(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (value or "").split(",") if word.strip())


def parse_numbers(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in parse_words(context, parameter, value))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers like 100,200") from None


def parse_counts(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, ...]:
    found = parse_numbers(context, parameter, value)
    if any(number < 1 or number != int(number) for number in found):
        raise click.BadParameter(f"{value!r} is not a list of whole numbers like 1,2,4")
    return tuple(int(number) for number in found)


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
@click.option("--threads-sweep", callback=parse_counts, help="Also time with 1,2,4 threads.")
@click.option("--repeats", default=3, show_default=True, help="Native runs; long ones get fewer.")
@click.option("--time-limit", default=600.0, show_default=True, help="Seconds for the whole pilot.")
@click.option(
    "--max-slowdown",
    default=300.0,
    show_default=True,
    help="Emulation takes at most this times the native runtime (at least 10 s).",
)
@click.option(
    "--collectors", callback=parse_words, help=f"Only these of {','.join(COLLECTORS.own())}."
)
@click.option("--no-emulation", is_flag=True, help="Leave the emulated run out.")
@click.option("--runs-on", callback=_targets, help="Say what it runs on: cpu, cuda, hip.")
@click.option("--needs", callback=parse_words, help="Instruction sets that it needs, as avx512f.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads that it uses.")
@click.option("--ranks", type=click.IntRange(min=1), help="MPI ranks that it uses.")
@click.option(
    "--follows-shape",
    is_flag=True,
    help="Its job script takes SLURM_NTASKS and SLURM_CPUS_PER_TASK: both may change.",
)
@click.option("--stdin", help="File to give as standard input [default: empty].")
@click.option(
    "--in-place",
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
@click.option("--replace", is_flag=True, help="With --store: in place of a workload of that name.")
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
    from berth.plugin.cli.pilot.stored import destination  # noqa: PLC0415 - slow, only when asked

    name = make_plan(options).name
    return destination(name, site_file, os.environ.get("BERTH_STORE"), replace=replace)


def _file(home: Destination, profile: Profile, output: Path | None, *, quiet: bool) -> None:
    """Into the store; where that fails the Profile is kept in a file. Raises BerthError."""
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


def check_output(output: Path | None) -> None:
    """Find out before the pilot, not after it, that its result has nowhere to go."""
    if output is None:
        return
    folder = output.resolve().parent
    if output.is_dir():
        raise UsageError(f"--output: {output} is a folder")
    if not folder.is_dir():
        raise UsageError(f"--output: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output: no right to write in {folder}")
