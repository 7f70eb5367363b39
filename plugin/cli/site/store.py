"""``berth site store``: creates and upgrades the store, and removes old records."""

from __future__ import annotations

import time

import click

from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.store import Store
from berth.plugin.store.database import Database
from berth.plugin.store.upgrade import HEAD, schema_version
from berth.plugin.store.upgrade import upgrade as run_migrations

_DAY_S = 86_400.0


@click.group()
def store() -> None:
    """Make, upgrade and prune the store.

    \b
    Example:
      berth site store upgrade --site /etc/berth/berth.toml
    """


@store.command()
@json_option
@store_options
def upgrade(*, json_: bool, installation: Installation) -> None:
    """Make the store, or bring it to this version's schema. Changes nothing where it is so.

    \b
    Example:
      berth site store upgrade --store postgresql://berth@db/berth
    """
    database = Database(installation.url())
    database.create_file()
    before = schema_version(database)
    run_migrations(database)
    done = f"{before or '(none)'} -> {HEAD}" if before != HEAD else f"{HEAD}, nothing to do"
    answer(
        f"{database.name}: schema {done}",
        {"store": database.name, "before": before, "now": HEAD},
        json_=json_,
    )


@store.command()
@click.option(
    "--older-than-days",
    type=click.FloatRange(min=0),
    required=True,
    help="Delete what is older; keep what is younger.",
)
@click.option(
    "--outcomes",
    is_flag=True,
    help="Also delete what became of jobs that ended before then, imported ones, too.",
)
@json_option
@store_options
def prune(
    *,
    older_than_days: float,
    outcomes: bool,
    json_: bool,
    installation: Installation,
) -> None:
    """Delete old decisions. Profiles and forecasts stay, outcomes unless --outcomes is given.

    \b
    Example:
      berth site store prune --older-than-days 90
      berth site store prune --older-than-days 400 --outcomes
    """
    url = installation.url()
    schema_version(Database(url))  # raises if the store is absent: pruning must not create one
    opened = Store.open(url)
    before_s = time.time() - older_than_days * _DAY_S
    deleted = {"decisions": opened.decisions.prune(before_s)}
    if outcomes:
        deleted["outcomes"] = opened.outcomes.prune(before_s)
        opened.memory_needs.prune(before_s)
        opened.usages.prune(before_s)
        opened.nodes.prune(before_s)
    count = " and ".join(f"{number} {noun}" for noun, number in deleted.items())
    answer(
        f"{opened.name}: {count} deleted", {"store": opened.name, "deleted": deleted}, json_=json_
    )
