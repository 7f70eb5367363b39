"""``berth jobs waits``: the wait of a job that is submitted now, by place, size and length."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.pilot.units import format_elapsed
from berth.plugin.cli.options import store_options, table_json_option
from berth.plugin.installed_site import SITE_FILE, find_site, open_store
from berth.plugin.replay.live import expected_times, next_hours, wait_tables
from berth.plugin.replay.present import present_queue
from berth.plugin.report.terminal import columns
from berth.plugin.scheduler.registry import open_scheduler
from berth.policies.replay import Settings
from berth.policies.waits import WaitTable


@click.command()
@table_json_option
@store_options
def waits(*, json_: bool, site_file: Path | None, store_url: str | None) -> None:
    """Expected waits at each place of the site, for a job that comes now.

    The jobs that run and wait are replayed as by berth replay --live, by how long each is expected
    to take: as predicted when it was placed, else as its user's jobs before. The daemon asks the
    same beside its answers.

    \b
    Example:
      berth jobs waits
    """
    site = find_site(site_file)
    if site is None:
        raise UsageError(
            f"there is no {SITE_FILE}", hint="make one: berth site init; or give --site"
        )
    scheduler, store = open_scheduler(site), open_store(site_file, store_url)
    facts, jobs = scheduler.read(full=False), scheduler.present_jobs()
    now_s = time.time()
    present = present_queue(facts, jobs, site.candidates)
    known = expected_times(present, store, site.candidates)
    tables = wait_tables(next_hours(present, Settings(), known), present, site.candidates)
    if json_:
        found = {name: table.to_dict() for name, table in tables.items()}
        click.echo(json.dumps({"as_of_s": now_s, "tables": found}))
        return
    running = sum(one.running for one in jobs)
    click.echo(f"{running} jobs run, {len(jobs) - running} wait")
    gpus = {one.name for one in site.candidates if one.is_gpu}
    for line in _lines(tables, gpus):
        click.echo(line)


def _lines(tables: Mapping[str, WaitTable], gpus: set[str]) -> Iterator[str]:
    for name, table in tables.items():
        yield ""
        heads = [
            "any" if math.isinf(bound) else f"up to {format_elapsed(bound)}"
            for bound in table.seconds
        ]
        rows = [
            [str(size), *("none" if one.mid == 0 else format_elapsed(one.mid) for one in row)]
            for size, row in zip(table.units, table.waits, strict=True)
        ]
        yield columns([f"{name}: {'GPUs' if name in gpus else 'cores'}", *heads], rows)
