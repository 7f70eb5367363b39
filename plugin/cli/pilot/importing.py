"""``berth pilot import``: makes Profiles from other tools' files."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import click

from berth.pilot.documents import to_json, write_json, write_text
from berth.pilot.errors import UsageError
from berth.pilot.importers.profiles import (
    Wishes,
    chosen,
    distinct,
    file_name,
    left_out,
    profile,
)
from berth.pilot.importers.reading import PROFILE, SECONDS, ImportOptions
from berth.pilot.profile import NAME_PATTERN, Profile, Target
from berth.plugin.cli.options import PATH, POSITIVE
from berth.plugin.readers import read_measurements, readers
from berth.plugin.report.of_profile import profiles_part
from berth.plugin.report.terminal import part_text


@click.command(
    "import",
    epilog="Example: berth pilot import run.cali --platform quartz --region 'Stream_*' -o out/",
)
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option(
    "--format",
    "kind",
    type=click.Choice([reader.name for reader in readers(PROFILE)]),
    show_default="found by the content",
    help="The tool that wrote FILES.",
)
@click.option(
    "--platform",
    envvar="BERTH_PLATFORM",
    show_envvar=True,
    help="Name of the platform it was measured on.",
)
@click.option("--region", "regions", multiple=True, help="Only these regions (shell pattern).")
@click.option("--size", "sizes", type=float, multiple=True, help="Problem size (or one a file).")
@click.option("--name", help="Name of the profiles, before the region [default: the file's].")
@click.option("--runtime", type=float, help="Elapsed seconds, where the file has none.")
@click.option(
    "--time-unit",
    type=click.Choice(["s", "ms", "us", "ns"]),
    help="Unit of times whose unit the file does not say.",
)
@click.option(
    "--processor",
    type=click.Choice(["intel", "amd", "arm", "power"]),
    help="The processor whose raw event codes (r01c7) perf counted.",
)
@click.option(
    "--runs-on",
    "targets",
    type=click.Choice([target.value for target in Target]),
    multiple=True,
    help="Say what the program runs on.",
)
@click.option("--threads", type=POSITIVE, help="Threads of one process.")
@click.option("--ranks", type=POSITIVE, help="MPI ranks of the run.")
@click.option(
    "--output",
    "-o",
    type=PATH,
    help="A file (several profiles: one a line), or a folder, one file a profile.",
)
@click.option("--json", "json_", is_flag=True, help="Print the Profiles, one a line.")
def import_(
    files: tuple[Path, ...],
    *,
    kind: str | None,
    platform: str | None,
    regions: tuple[str, ...],
    sizes: tuple[float, ...],
    runtime: float | None,
    time_unit: str | None,
    processor: str | None,
    targets: tuple[str, ...],
    output: Path | None,
    json_: bool,
    **wished: Any,
) -> None:
    """Make Profiles from FILES of Caliper, LIKWID and perf.

    One Profile a region or kernel. What a file lacks is missing in the Profile, with the reason;
    what the catalogue has no name for is listed.
    """
    if not platform:
        raise UsageError("the platform that the files are of is not named", hint="--platform NAME")
    if re.fullmatch(NAME_PATTERN, platform) is None:
        raise UsageError(f"{platform!r} is not a platform's name", hint="letters, digits, _.+-")
    if len(sizes) not in (0, 1, len(files)):
        raise UsageError(f"{len(sizes)} sizes for {len(files)} files", hint="one, or one a file")
    if any(size <= 0 for size in sizes) or (runtime is not None and runtime <= 0):
        raise UsageError("a size and a runtime are above zero")
    options = ImportOptions(SECONDS[time_unit] if time_unit else None, processor)
    profiles: list[Profile] = []
    for index, path in enumerate(files):
        source, readings = read_measurements(path, kind, options)
        wishes = Wishes(
            platform=platform,
            size=sizes[index % len(sizes)] if sizes else None,
            runtime_s=runtime,
            targets=tuple(Target(target) for target in targets),
            regions=regions,
            **wished,
        )
        profiles += [profile(r, region, source, wishes) for r, region in chosen(readings, regions)]
        unknown = sorted({name for reading in readings for name in left_out(reading)})
        if unknown:
            click.echo(f"{path}: not in the catalogue, left out: {', '.join(unknown)}", err=True)
    profiles = distinct(profiles)
    if output is not None:
        _write(output, profiles)
    if json_:
        for each in profiles:
            click.echo(_line(each))
    else:
        click.echo(part_text(profiles_part(profiles)))
        if output is not None:
            click.echo(f"written to {output}")


def _write(output: Path, profiles: list[Profile]) -> None:
    if output.is_dir() or str(output).endswith(os.sep):
        for each in profiles:
            write_json(file_name(output, each), each)
    elif len(profiles) == 1 and output.suffix != ".jsonl":
        write_text(output, to_json(profiles[0]))
    else:
        write_text(output, "".join(_line(each) + "\n" for each in profiles))


def _line(result: Profile) -> str:
    return json.dumps(result.model_dump(mode="json", by_alias=True), separators=(",", ":"))
