"""``berth jobs decisions``: shows the daemon's decisions and their reasons."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.report.of_decision import (
    decided,
    decided_one,
    decision_data,
    decision_part,
    decisions_table,
)
from berth.plugin.store import DecisionRecord, Store
from berth.plugin.workloads.names import caller

if TYPE_CHECKING:
    from berth.plugin.users.client import RemoteStore


@click.command()
@click.argument("decision", required=False, metavar="[ID|JOB]")
@click.option("--last", type=click.IntRange(1, 100_000), default=20,
              help="Show so many of the newest.")  # fmt: skip
@click.option("--user", help="Show only those of this user.")
@click.option(
    "--code", help="Show only those with this code (docs/reasons.md), for example no-workload."
)
@click.option("--workload", help="Show only those of this workload.")
@json_option
@store_options
def decisions(
    decision: str | None,
    *,
    last: int,
    user: str | None,
    code: str | None,
    workload: str | None,
    json_: bool,
    installation: Installation,
) -> None:
    """List what was decided, newest first; or explain the decision ID, or the one for JOB.

    Of one: what was asked, what was chosen, what else there was and why not.

    \b
    Example:
      berth jobs decisions --user alice --last 5
      berth jobs decisions 1234
      berth jobs decisions 1m7y4whj8kbbvxmm --site /etc/berth/berth.toml
    """
    store = installation.view()
    if decision is not None:
        explained = decided_one(store, _by_id(store, decision))
        answer(lambda: decision_part(explained), lambda: decision_data(explained), json_=json_)
        return
    if workload is not None:
        from berth.plugin.workloads.filing import stored_for  # noqa: PLC0415 - predictor

        with suppress(UsageError):  # the records keep the names of removed workloads
            workload = stored_for(store, workload, caller()).name
    newest = decided(store, store.decisions.last(last, user=user, code=code, workload=workload))
    answer(
        lambda: replace(decisions_table(newest), if_empty="no decisions yet"),
        lambda: [decision_data(each) for each in newest],
        json_=json_,
    )


def _by_id(store: Store | RemoteStore, decision: str) -> DecisionRecord:
    """Return the decision of this id, or the one for the job of this id. Raises UsageError."""
    record = store.decisions.get(decision)
    if record is None:
        from berth.plugin.report.known_job import decision_of_job  # noqa: PLC0415 - schedulers
        from berth.plugin.scheduler import all_schedulers  # noqa: PLC0415

        if any(scheduler.job_id(decision) is not None for scheduler in all_schedulers()):
            decision = decision_of_job(store, decision)
            record = store.decisions.get(decision)
    if record is None:
        raise UsageError(
            f"no decision {decision!r} is in {store.name}",
            hint="list them: berth jobs decisions",
        )
    return record
