"""Where the submit filter is, and its configuration as the site file has it."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.errors import UsageError
from berth.plugin.site.site import Site

FILTER_PATH = Path(__file__).with_name("job_submit.lua")
"""The Lua file to install beside ``slurm.conf``, or to load from the site's own."""

CONFIG_PATH = Path("/etc/berth/filter.conf")
"""Where the filter looks for its configuration unless slurmctld's environment says otherwise."""

_FIRST_PAUSE_S = 1.0


def filter_config(site: Site) -> str:
    """The text of ``filter.conf``: ``key = value`` lines, read again while slurmctld runs."""
    daemon = site.daemon
    values: dict[str, object] = {
        "socket": daemon.socket,
        "kill_switch": daemon.kill_switch,
        "deadline_ms": daemon.deadline_ms,
        "breaker_failures": daemon.breaker_failures,
        "breaker_first_pause_s": min(_FIRST_PAUSE_S, daemon.breaker_open_s),
        "breaker_longest_pause_s": daemon.breaker_open_s,
    }
    if site.auto_queue is not None:
        values["auto_partition"] = site.auto_queue
    lines = [f"# Written by `berth slurm filter-config` from {site.source}"]
    for key, value in values.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        if "#" in text or "\n" in text:
            raise UsageError(
                f"{key} {text!r} cannot stand in filter.conf",
                hint="choose a path without # and line ends",
            )
        lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"
