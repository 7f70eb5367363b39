"""The options of ``berth replay``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from berth.plugin.cli.options import Rare
from berth.plugin.replay.past import formats
from berth.plugin.replay.truth import SOURCES
from berth.policies.replay.settings import Backfill

_FILE = click.Path(path_type=Path)
_MODES = [mode.value for mode in Backfill]


@dataclass(frozen=True)
class ReplayOptions:
    """The options of ``berth replay`` as the user gave them."""

    trace: Path | None
    live: bool
    accounting: bool
    site_file: Path | None
    cores: int | None
    format_: str | None
    utc: bool
    strict: bool
    backfills: Sequence[str]
    fair_share: float | None
    changes: Sequence[str]
    recut: bool
    recut_cost: float
    failures: Path | None
    mtbf: float | None
    repair: float
    no_requeue: bool
    reservations: str | None
    policies: Sequence[str]
    times: Path | None
    truth: Sequence[str]
    log_error: float
    seeds: int
    days: float | None
    no_kill: bool
    users: int
    brief: bool
    store_url: str | None
    html: Path | None
    json_: bool


_OPTIONS = (
    click.argument("trace", type=_FILE, required=False),
    click.option("--live", is_flag=True, help="Replay the present queue in place of a TRACE."),
    click.option("--accounting", is_flag=True,
                 help="Ask the scheduler for jobs of the last --days (30)."),
    click.option("--site", "site_file", type=_FILE, envvar="BERTH_SITE",
                 help="Site file with the cluster's nodes."),
    click.option("--cores", type=click.IntRange(1),
                 help="No site: one pool of so many cores."),
    click.option("--format", "format_", cls=Rare, type=click.Choice(formats()),
                 help="Format of TRACE. Default: by its first line."),
    click.option("--utc", cls=Rare, is_flag=True,
                 help="Times in sacct's TRACE and in tables are UTC."),
    click.option("--strict", cls=Rare, is_flag=True, help="Refuse a TRACE with a broken line."),
    click.option("--backfill", "backfills", multiple=True, type=click.Choice(_MODES),
                 help="Scheduler [easy]; several: side by side."),
    click.option("--fair-share", cls=Rare, type=click.FloatRange(min=0, min_open=True),
                 help="Use multifactor priority; half-life of usage in days."),
    click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
                 help="Change the cluster, as nodes.KIND.mig=10, "
                 "partitions.NAME.max_time=12h."),
    click.option("--recut", cls=Rare, is_flag=True,
                 help="Cut GPUs anew, as `berth mig auto` would."),
    click.option("--recut-cost", cls=Rare, type=click.FloatRange(min=0), default=60.0,
                 metavar="SECONDS",
                 help="How long a GPU that is cut anew takes no jobs."),
    click.option("--failures", cls=Rare, type=_FILE, metavar="CSV",
                 help="CSV of failures: nodes,begin,end."),
    click.option("--mtbf", cls=Rare, type=click.FloatRange(min=0, min_open=True), metavar="DAYS",
                 help="Nodes break at random: mean time between failures of one node."),
    click.option("--repair", cls=Rare, type=click.FloatRange(min=0, min_open=True), default=4.0,
                 metavar="HOURS", help="How long a node is out then."),
    click.option("--no-requeue", cls=Rare, is_flag=True,
                 help="Jobs of a node that breaks are lost."),
    click.option("--reservations", cls=Rare, metavar="CSV|live",
                 help="Nodes kept from jobs: nodes,begin,end; live: as the scheduler has them."),
    click.option("--policy", "policies", multiple=True, metavar="OBJECTIVE",
                 help="Let Berth place jobs by it; several: side by side."),
    click.option("--times", type=_FILE, metavar="CSV",
                 help="CSV of times elsewhere: job,platform,runtime_s."),
    click.option("--truth", cls=Rare, multiple=True, type=click.Choice(SOURCES),
                 help="Where run times elsewhere come from, the first that knows. Default: times."),
    click.option("--log-error", cls=Rare, type=click.FloatRange(0, 5), default=0.0,
                 help="Predictions are these times with an error so large, in log."),
    click.option("--seeds", cls=Rare, type=click.IntRange(1, 1000), default=1,
                 help="Draws of errors and failures; figures are means over them."),
    click.option("--days", type=click.FloatRange(min=0, min_open=True),
                 help="Only the first so many days of TRACE."),
    click.option("--no-kill", cls=Rare, is_flag=True,
                 help="Jobs run on past their time limit and memory."),
    click.option("--users", cls=Rare, type=click.IntRange(0), default=5,
                 help="How many users that lose, and that gain, are shown."),
    click.option("--brief", is_flag=True, help="A line for each replay, without users."),
    click.option("--store", "store_url", cls=Rare, envvar="BERTH_STORE",
                 help="Store for --live and --truth. Default: the site file's."),
    click.option("--html", type=_FILE,
                 help="Write pictures and tables as one file."),
    click.option("--json", "json_", is_flag=True, help="Print JSON."),
)  # fmt: skip


def replay_options(command: Callable[[ReplayOptions], None]) -> Callable[..., None]:
    """Add the options of ``berth replay`` to the command, which receives them as one
    ``ReplayOptions``."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        command(ReplayOptions(**given))

    found: Callable[..., None] = wrapped
    for option in reversed(_OPTIONS):
        found = option(found)
    return found
