"""``berth jobs waits``: estimates the wait of a job submitted now, by place, size and length."""

from __future__ import annotations

import time

import click

from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.replay.live import expected_times, next_hours, wait_tables
from berth.plugin.replay.present import present_queue
from berth.plugin.report.of_queue import waits_report
from berth.plugin.scheduler.registry import open_scheduler
from berth.policies.replay import Settings


@click.command()
@json_option
@store_options
def waits(*, json_: bool, installation: Installation) -> None:
    """Show how long a job that comes now would wait at each place of the site.

    The jobs that run and wait are replayed as by berth replay --live, by how long each is expected
    to take: as predicted when it was placed, else as its user's jobs before. The daemon asks the
    same beside its answers.

    \b
    Example:
      berth jobs waits
    """
    site = installation.needed_site()
    scheduler, store = open_scheduler(site), installation.reading()
    facts, jobs = scheduler.read(full=False), scheduler.present_jobs()
    now_s = time.time()
    present = present_queue(facts, jobs, site.candidates)
    known = expected_times(present, store, site.candidates)
    tables = wait_tables(next_hours(present, Settings(), known), present, site.candidates)
    running = sum(job.running for job in jobs)
    gpus = {candidate.name for candidate in site.candidates if candidate.is_gpu}
    answer(
        lambda: waits_report(tables, gpus, running=running, waiting=len(jobs) - running),
        {"as_of_s": now_s, "tables": {name: table.to_dict() for name, table in tables.items()}},
        json_=json_,
    )
