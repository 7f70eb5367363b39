"""``berth mig auto``: plans for the waiting jobs, and changes the MIG layout where it pays."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import click

from berth.pilot.documents import read_json_or_toml
from berth.pilot.errors import UsageError
from berth.plugin.cli.mig.apply import preview_text
from berth.plugin.cli.mig.plan import workload_jobs_option
from berth.plugin.cli.options import FILE, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.mig.access import open_access
from berth.plugin.mig.automatic import expected_demands, think
from berth.plugin.mig.errors import Locked
from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.journal import ApplyJournal
from berth.plugin.mig.recommending import demands_of, predictions_for, with_workloads
from berth.plugin.mig.settings import MigSettings, load
from berth.policies.mig.demands import Demand
from berth.policies.mig.documents import JobsDocument


@click.command()
@click.option(
    "--jobs",
    "jobs_file",
    type=FILE,
    help="Jobs to plan for (berth.mig-jobs/1); default: the scheduler's queue.",
)
@workload_jobs_option
@click.option("--yes", is_flag=True, help="Re-cut where it is worth it; else only say so.")
@click.option(
    "--triggered", is_flag=True, help="Do nothing unless [trigger] is enabled; for timers."
)
@json_option
@store_options
def auto(
    *,
    jobs_file: Path | None,
    named: tuple[str, ...],
    yes: bool,
    triggered: bool,
    json_: bool,
    installation: Installation,
) -> None:
    """Plan this machine's GPUs for the jobs that wait, and re-cut them where that is worth it.

    Jobs that are expected (what came lately, at its rate; [outlook]) count after those that wait.
    Not sooner after the last cut than min_dwell_s and not for less than min_gain (both in
    /etc/berth/mig.toml, [trigger]). Slices in use or given to a job stay where they are.

    Workloads of any kind (--workload, or named in the jobs' file) get the slices that they fit in.

    \b
    Example:
      berth mig auto --jobs jobs.json
      berth mig auto --workload bert=4 --yes
    """
    settings = load()
    if triggered and not settings.trigger.enabled:
        _say("automatic re-cutting is off", False, json_)
        return
    gpus = open_access(settings, lambda text: click.echo(f"  {text}", err=True))
    journal = ApplyJournal(Path(settings.state_dir))
    if interruption := journal.interruption():
        if not yes:
            _say(interruption, False, json_)
            return
        try:
            gpus.resume()
        except Locked as error:
            _say(error.message, False, json_)
            return
    fleet = gpus.inventory()
    models = [gpu.geometry.gpu for gpu in fleet if gpu.geometry]
    if not models:
        _say("no GPU has MIG on", False, json_)
        return
    jobs = None if jobs_file is None else read_json_or_toml(jobs_file, JobsDocument)
    if jobs is None and not named:
        demands = _queue(settings, fleet)
    else:
        demands = demands_of(
            with_workloads(jobs, named),
            models,
            lambda: predictions_for(installation.site()),
            installation.reading,
        )
    thought = think(
        fleet,
        settings.node.keeper().allocated(fleet) if settings.node else frozenset(),
        demands,
        settings.trigger,
        now_s=time.time(),
        last_cut_s=journal.last_cut_s(),
    )
    if thought.target is None:
        _say(thought.verdict.reason, False, json_)
        return
    if not yes:
        previews = gpus.preview(thought.target)
        if json_:
            _say(thought.verdict.reason, True, json_, gpus=[p.as_json() for p in previews])
        else:
            click.echo("\n".join(preview_text(previews)))
            click.echo(f"{thought.verdict.reason}; --yes does it.")
        return
    report = gpus.apply(thought.target)
    _say(thought.verdict.reason, True, json_, outcome=report.outcome)


def _queue(settings: MigSettings, fleet: Fleet) -> tuple[Demand, ...]:
    node = settings.node
    if node is None:
        raise UsageError(
            "there is no queue to plan for",
            hint="set the scheduler's table in mig.toml, or give --jobs or --workload",
        )
    profiles = {p.name for gpu in fleet if gpu.geometry for p in gpu.geometry.profiles}
    say = partial(click.echo, err=True)
    seen_now = partial(node.asked, profiles)
    return (
        *node.pending(profiles),
        *expected_demands(settings.outlook, seen_now, now_s=time.time(), say=say),
    )


def _say(reason: str, recut: bool, json_: bool, **more: object) -> None:
    if json_:
        click.echo(json.dumps({"recut": recut, "reason": reason, **more}))
    else:
        click.echo(f"{'Re-cut' if recut else 'Left as it is'}: {reason}.")
