"""Where Flux's submit filter is, and its configuration as the site file has it."""

from __future__ import annotations

import json
from pathlib import Path

from berth.plugin.site.site import Site

FILTER_PATH = Path(__file__).with_name("frobnicator.py")
"""The file that Flux's configuration names."""

MIG_SLICES_PATH = Path(__file__).with_name("mig_slices.lua")
"""The plugin of Flux's job shell that gives tasks their slices by UUID."""

_FIRST_PAUSE_S = 1.0


def filter_config(site: Site, path: Path = FILTER_PATH) -> str:
    """Flux configuration (TOML): the frobnicator before Flux's own, and its settings.

    Ours comes first, so that ``constraints`` applies what the chosen queue requires.
    """
    daemon = site.daemon
    settings: dict[str, object] = {
        "socket": str(daemon.socket),
        "kill_switch": str(daemon.kill_switch),
        "deadline_ms": daemon.deadline_ms,
        "breaker_failures": daemon.breaker_failures,
        "breaker_first_pause_s": min(_FIRST_PAUSE_S, daemon.breaker_open_s),
        "breaker_longest_pause_s": daemon.breaker_open_s,
    }
    if site.auto_queue is not None:
        settings["auto_queue"] = site.auto_queue
    lines = [
        f"# Written by `berth flux filter-config` from {site.source}",
        "[ingest.frobnicator]",
        f"plugins = {json.dumps([str(path), 'defaults', 'constraints'])}",
        "",
        "[ingest.frobnicator.berth]",
        *(f"{key} = {json.dumps(value)}" for key, value in settings.items()),
    ]
    return "\n".join(lines) + "\n"
