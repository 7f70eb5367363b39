"""``berth pilot campaign``: profiles every kernel of the reference suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from berth.pilot.campaign import DEFAULT_SIZES, CampaignOptions, run_campaign
from berth.pilot.errors import UsageError
from berth.pilot.options import check_name
from berth.pilot.suite import build_suite
from berth.plugin.cli.options import COUNTS, FILE, WORDS, Rare, answer, json_option, platform_option
from berth.plugin.cli.pilot.common import progress


@click.command(
    epilog="Example: berth pilot campaign --sizes 1048576,2097152 --output kernels.jsonl"
)
@click.option(
    "--kernels",
    type=WORDS,
    default=(),
    help="Measure only these kernels, as Stream_TRIAD,Basic_DAXPY.",
)
@click.option(
    "--sizes",
    type=COUNTS,
    default=",".join(str(size) for size in DEFAULT_SIZES),
    help="Problem sizes.",
)
@click.option(
    "--output",
    "-o",
    required=True,
    type=FILE,
    help="JSON lines, one Profile each; what it already holds is not measured again.",
)
@platform_option
@click.option(
    "--native-only",
    cls=Rare,
    is_flag=True,
    help="Measure only times and memory: on a quiet machine.",
)
@click.option(
    "--emulated-only",
    cls=Rare,
    is_flag=True,
    help="Measure only counters: works on a busy machine.",
)
@click.option(
    "--no-openmp", cls=Rare, is_flag=True, help="Leave out what only the OpenMP build shows."
)
@click.option("--refresh", is_flag=True, help="Measure again what the file already has.")
@click.option(
    "--nice", cls=Rare, type=click.IntRange(0, 19), default=0, help="Lower the priority by so much."
)
@json_option
def campaign(
    *,
    sizes: tuple[int, ...],
    output: Path,
    platform: str,
    native_only: bool,
    emulated_only: bool,
    no_openmp: bool,
    json_: bool,
    **settings: Any,
) -> None:
    """Profile every kernel of the reference suite at every size, one repetition each.

    Interrupted, it goes on where it stopped when it is started again.
    """
    if native_only and emulated_only:
        raise UsageError("--native-only and --emulated-only leave nothing to measure")
    check_name("--platform", platform)
    if not sizes:
        raise UsageError("--sizes is empty")
    options = CampaignOptions(
        output=output,
        sizes=sizes,
        platform=platform,
        native=not emulated_only,
        emulated=not native_only,
        openmp=not (native_only or no_openmp),
        **settings,
    )
    suite = build_suite()
    if suite.left_out:
        click.echo(f"warning: {suite.left_out}", err=True)
    with progress() as say:
        result = run_campaign(options, suite, say)
    answer(
        f"{output}: {result.profiles} profiles, {result.measured} measured now",
        {
            "file": str(output), "profiles": result.profiles, "measured": result.measured,
            "failed": list(result.failed),
        },
        json_=json_,
    )  # fmt: skip
    for problem in result.failed:
        click.echo(f"  failed: {problem}", err=True)
    if result.failed:
        raise click.exceptions.Exit(1)
