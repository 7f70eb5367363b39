"""Where the submit filter is, and its configuration as the site file has it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.plugin.doctor.findings import Finding, Findings, Status
from berth.plugin.site.site import Site

FILTER_PATH = Path(__file__).with_name("job_submit.lua")
"""The Lua file to install beside ``slurm.conf``, or to load from the site's own."""

CLIENT_FILTER_PATH = Path(__file__).with_name("cli_filter.lua")
"""What sbatch, srun and salloc may load, so that options that slurmctld keeps from Lua count."""

_CONFIG_PATH = "/etc/berth/filter.conf"
"""Where the filter looks for its configuration unless BERTH_FILTER_CONFIG names another file."""

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
        "messages": site.show,
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


def check(site: Site) -> Findings:
    """For ``berth doctor``: is the filter's configuration what the site file makes of it?"""
    from berth.plugin.daemon.app import uids_of  # noqa: PLC0415 - doctor only
    from berth.plugin.doctor.findings import READ, persons, wall_before  # noqa: PLC0415

    path = Path(os.environ.get("BERTH_FILTER_CONFIG") or _CONFIG_PATH)
    advice = f"berth slurm filter-config --site {site.source} > {path}"
    try:
        there = path.read_text(errors="replace")
    except FileNotFoundError:
        text = f"{path} does not exist: the filter uses its defaults"
        yield Finding("filter", Status.WARN, text, advice)
        return
    for person in persons(uids_of(site) - {0, os.geteuid()}):
        wall = wall_before(path, READ, person)
        if wall is not None:
            text = f"{person.pw_name} may not {wall}: the filter uses its defaults"
            yield Finding("filter", Status.FAIL, text, f"chmod o+r {path}, o+x {path.parent}")
    apart = ", ".join(_apart(_settings(there), _settings(filter_config(site))))
    if apart:
        text = f"{path} does not agree with the site file: {apart}"
        yield Finding("filter", Status.WARN, text, advice)
    else:
        yield Finding("filter", Status.OK, f"{path} agrees with the site file")


def _settings(text: str) -> dict[str, str]:
    """By key; a line that is no ``key = value`` is a key without a value."""
    lines = (line.strip() for line in text.splitlines())
    parts = (line.partition("=") for line in lines if line and line[0] != "#")
    return {key.strip(): value.strip() for key, _, value in parts}


def _apart(there: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[str]:
    """How the settings in the file differ from those that are wanted."""
    for key, value in wanted.items():
        if key not in there:
            yield f"{key} is missing"
        elif there[key] != value:
            yield f"{key} is {there[key] or 'empty'}, not {value}"
    yield from (f"{key[:40]!r} is not of the site file" for key in there if key not in wanted)
