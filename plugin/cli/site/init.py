"""``berth site init``: makes a first site file from the scheduler's state."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from berth.pilot.documents import read_json, validate, write_json, write_text
from berth.pilot.errors import SchedulerError, UsageError
from berth.pilot.platform import Platform
from berth.plugin.cli.options import FILE, Named, answer, json_option
from berth.plugin.first_site.first import AUTO_QUEUE, FirstSite, first_site
from berth.plugin.first_site.stub import STUB_MARK
from berth.plugin.first_site.write import PLATFORM_FOLDER, auto_lines, left_out_line, toml_text
from berth.plugin.scheduler import SCHEDULERS, all_schedulers, scheduler_named
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.schedulers import DEFAULT
from berth.predictor.hardware import platforms as known_platforms


@click.command()
@click.option(
    "--output",
    "-o",
    type=FILE,
    default=Path("berth.toml"),
    help="File to write; platform stubs go in platforms/ beside it.",
)
@click.option(
    "--scheduler",
    type=Named(SCHEDULERS),
    default=None,
    help="Default: the first whose commands are on this machine.",
)
@click.option("--name", default=None, help="Name of the site. Default: the cluster's.")
@click.option("--dry-run", is_flag=True, help="Print the file, write nothing.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@json_option
def init(
    output: Path,
    *,
    scheduler: str | None,
    name: str | None,
    dry_run: bool,
    force: bool,
    json_: bool,
) -> None:
    """Ask the scheduler for its queues and nodes and write a first site file.

    One candidate for each kind of node and GPU type in each partition or queue, in mode shadow.

    Example: berth site init --output /etc/berth/berth.toml
    """
    asked = scheduler_named(scheduler or _here())
    folder = output.parent / PLATFORM_FOLDER
    added = known_platforms.load(folder) if folder.is_dir() else {}
    site = first_site(asked.read(), {**added, **known_platforms.load()}, asked)
    if not site.candidates:
        raise _nothing_to_place_on(site, asked.title, asked.queue_word)
    text = toml_text(site, name=name or site.facts.name)
    validate(tomllib.loads(text), SiteDocument, source=output)
    if dry_run:
        answer(text.rstrip("\n"), {**_as_json(site, None), "text": text}, json_=json_)
        return
    stubs = {
        output.parent / PLATFORM_FOLDER / f"{stub.name}.json": stub for stub in site.stubs.values()
    }
    stubs = {path: stub for path, stub in stubs.items() if not _measured(path)}
    there = [path for path in (output, *stubs) if path.exists()]
    if there and not force:
        raise UsageError(
            f"{there[0]} is there already; nothing was written",
            hint="--force overwrites it, --dry-run only shows the new one",
        )
    try:
        for path, stub in stubs.items():
            write_json(path, stub)
        write_text(output, text)
    except OSError as error:
        raise UsageError(
            f"{error.filename or output} cannot be written: {error.strerror}"
        ) from None
    answer(_summary(site, output), _as_json(site, output), json_=json_)


def _measured(path: Path) -> bool:
    """Return whether the platform file exists and was measured or added by the site, so that it
    must not be replaced."""
    return path.exists() and STUB_MARK not in read_json(path, Platform).description


def _here() -> str:
    return next((each.name for each in all_schedulers() if each.is_here()), DEFAULT)


def _nothing_to_place_on(site: FirstSite, title: str, word: str) -> SchedulerError:
    if site.has_auto:
        return SchedulerError(
            f"{title} has no {word} with nodes in it besides {AUTO_QUEUE}",
            hint=f"{AUTO_QUEUE} is what jobs name to be placed: the places are other {word}s, "
            "of each kind of node one; give the nodes to such, or give it another name",
        )
    if site.left_out:
        return SchedulerError(
            f"{title} has no {word} with nodes in it that users may use: "
            f"{', '.join(f'{queue.name} is {queue.not_for_users}' for queue in site.left_out)}"
        )
    return SchedulerError(f"{title} has no {word} with nodes in it")


def _as_json(site: FirstSite, output: Path | None) -> dict[str, object]:
    """Return the new site file's summary as plain data; ``output`` is None where nothing was
    written."""
    return {
        "file": None if output is None else str(output),
        "mode": "shadow",
        "candidates": [
            {
                "name": candidate.name, "platform": candidate.platform, "nodes": candidate.nodes,
                "queue": candidate.queue.name, "check": list(candidate.remarks),
            }
            for candidate in site.candidates
        ],
        "platforms_to_calibrate": [
            stub.name for stub in site.stubs.values() if STUB_MARK in stub.description
        ],
        "left_out": [
            {"queue": queue.name, "reason": queue.not_for_users} for queue in site.left_out
        ],
        "scheduler_config": list(auto_lines(site)),
    }  # fmt: skip


def _summary(site: FirstSite, output: Path) -> str:
    count = len(site.candidates)
    lines = [f"Wrote {output}: {count} candidate{'s' if count > 1 else ''}, mode shadow."]
    lines += [f"  {c.name}: {c.nodes} x {c.platform} in {c.queue.name}" for c in site.candidates]
    remarks = [f"  CHECK {c.name}: {remark}." for c in site.candidates for remark in c.remarks]
    lines += remarks
    if site.left_out:
        lines.append(left_out_line(site))
    word = site.queue_word
    auto = auto_lines(site)
    if auto:
        lines += [
            f"For `--{word}=auto`, add to {site.scheduler.config_file} "
            "(nodes where any job may run):",
            *(f"  {line}" for line in auto),
            f'and auto_{word} = "auto" to [site].',
        ]
    if any(STUB_MARK in stub.description for stub in site.stubs.values()):
        lines.append(f"Next: berth site calibrate --site {output}")
    return "\n".join(lines)
