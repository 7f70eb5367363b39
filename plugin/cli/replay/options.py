"""The options of ``berth replay``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

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
    utc: bool
    backfills: Sequence[str]
    changes: Sequence[str]
    policies: Sequence[str]
    times: Path | None
    truth: Sequence[str]
    seeds: int
    days: float | None
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
    click.option("--utc", is_flag=True,
                 help="Times in sacct's TRACE and in tables are UTC."),
    click.option("--backfill", "backfills", multiple=True, type=click.Choice(_MODES),
                 help="Scheduler [easy]; several: side by side."),
    click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
                 help="Change the cluster, as nodes.KIND.mig=10, "
                 "partitions.NAME.max_time=12h."),
    click.option("--policy", "policies", multiple=True, metavar="OBJECTIVE",
                 help="Let Berth place jobs by it; several: side by side."),
    click.option("--times", type=_FILE, metavar="CSV",
                 help="CSV of times elsewhere: job,platform,runtime_s."),
    click.option("--truth", multiple=True, type=click.Choice(SOURCES),
                 help="Where run times elsewhere come from, the first that knows. Default: times."),
    click.option("--seeds", type=click.IntRange(1, 1000), default=1,
                 help="Draws of times from --truth forecasts; figures are means over them."),
    click.option("--days", type=click.FloatRange(min=0, min_open=True),
                 help="Only the first so many days of TRACE."),
    click.option("--store", "store_url", envvar="BERTH_STORE",
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
