"""The paths of Flux's submit filter and shell plugin, their configuration, and its check."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from berth.plugin.findings import Finding, Findings, Status, ok, warn
from berth.plugin.flux.commands import ask
from berth.plugin.site.site import Site

FILTER_PATH = Path(__file__).with_name("frobnicator.py")
"""The filter's file, which Flux's configuration names."""

MIG_SLICES_PATH = Path(__file__).with_name("mig_slices.lua")
"""The plugin of Flux's job shell that gives tasks their MIG slices by UUID."""


def filter_config(site: Site, path: Path = FILTER_PATH) -> str:
    """Return Flux configuration (TOML) that loads the filter before Flux's own plugins, and its
    settings.

    Berth's filter comes first, so that Flux's ``constraints`` plugin then applies the requirements
    of the queue that Berth chose.
    """
    daemon = site.daemon
    settings: dict[str, object] = {
        "socket": str(daemon.socket),
        "kill_switch": str(daemon.kill_switch),
        "deadline_ms": daemon.deadline_ms,
    }
    if site.auto_queue is not None:
        settings["auto_queue"] = site.auto_queue
    lines = [
        f"# Written by `berth site flux filter-config` from {site.source}",
        "[ingest.frobnicator]",
        f"plugins = {json.dumps([str(path), 'defaults', 'constraints'])}",
        "",
        "[ingest.frobnicator.berth]",
        *(f"{key} = {json.dumps(value)}" for key, value in settings.items()),
    ]
    return "\n".join(lines) + "\n"


def check(site: Site) -> Findings:
    """Check for ``berth site doctor`` that Flux loads the filter first and with the site's
    settings.
    """
    table = ask("state", timeout_s=10)["config.get"].get("ingest", {}).get("frobnicator", {})
    wanted = tomllib.loads(filter_config(site))["ingest"]["frobnicator"]
    advice = f"berth site flux filter-config --site {site.source}, then flux config reload"
    plugins = table.get("plugins", [])
    named = [p for p in plugins if Path(p).name not in ("defaults", "constraints")]
    if not named:
        yield warn("filter", "Flux's configuration names no frobnicator", advice)
    elif (problem := _problem_of(Path(named[0]))) is not None:
        yield Finding("filter", *problem, advice)
    elif table.get("berth", {}) != wanted["berth"]:
        text = "its settings do not agree with the site file"
        yield warn("filter", text, advice)
    elif plugins.index(named[0]) != 0:
        yield warn("filter", "the frobnicator is not the first", advice)
    else:
        yield ok("filter", f"{named[0]} agrees with the site file")


def _problem_of(path: Path) -> tuple[Status, str] | None:
    """Return the status and text of a problem with the filter's file on this host; None: no
    problem.
    """
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return Status.FAIL, f"there is no {path}: Flux takes no job once its workers start anew"
    except OSError as error:
        return Status.WARN, f"{path}: {error.strerror}"
    if "Berth's submit filter" in text and text != FILTER_PATH.read_text():
        return Status.WARN, f"{path} is another version's frobnicator"
    return None
