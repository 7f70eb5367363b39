"""``berth jobs learn``: updates forecasts from finished jobs now."""

from __future__ import annotations

import dataclasses

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.learning.learner import Learner
from berth.plugin.report.of_store import learning_sentences


@click.command()
@click.option("--rebuild", is_flag=True, help="Forget what was learnt and learn it anew.")
@click.option(
    "--without",
    multiple=True,
    metavar="JOBID",
    help="Leave this job out for good; can be given several times.",
)
@json_option
@store_options
def learn(
    *,
    rebuild: bool,
    without: tuple[str, ...],
    json_: bool,
    installation: Installation,
) -> None:
    """Learn from the jobs that have ended since the last time (docs/learning.md).

    The daemon does it by itself within a minute of a job's end; this is for a timer on another
    host, and for undoing. A job that is left out counts no more, whoever asks.

    \b
    Example:
      berth jobs learn
      berth jobs learn --without 4711
      berth jobs learn --rebuild
    """
    site = installation.site()
    store = installation.store(create=False)
    learner = Learner(store, everybody=site is not None and site.learning.everybody)
    for job in without:
        if not learner.without(job):
            raise UsageError(
                f"nothing was learnt from job {job}", hint="see: berth workload show NAME"
            )
    done = learner.rebuild() if rebuild else learner.until_done()
    answer("\n".join(learning_sentences(done)), dataclasses.asdict(done), json_=json_)
