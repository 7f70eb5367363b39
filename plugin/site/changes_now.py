"""Says what Berth would change at this moment: the one sentence that every view shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from berth.pilot.units import counted, format_moment
from berth.plugin.site.site import Site
from berth.policies.values import Mode

_WHO: Mapping[Mode, str] = {
    Mode.SHADOW: "No job is changed (mode shadow); recorded is what would become of",
    Mode.ADVISE: "No job is changed (mode advise); users are told what would become of",
    Mode.ENFORCE: "Jobs are changed (mode enforce):",
}


class ChangesNow(NamedTuple):
    """What becomes of a job that is submitted now."""

    are_made: bool
    """Whether jobs are changed."""
    sentence: str
    advice: str | None = None
    """What to do where nothing can be changed; None: Berth does what the site file says."""
    is_silent: bool = False
    """Whether the daemon gave no answer."""


def changes_now(site: Site, stats: Mapping[str, Any] | None) -> ChangesNow:
    """Return what Berth would change now.

    ``stats``: the daemon's answer (docs/protocol.md), whose mode is the one in force; None: the
    daemon does not answer.
    """
    switch = site.daemon.kill_switch
    try:
        stopped_s = switch.stat().st_mtime
    except OSError:
        stopped_s = None
    if stopped_s is not None:
        text = f"Berth is stopped since {format_moment(stopped_s)}: {switch} exists"
        advice = "remove the file to let Berth work again"
        return ChangesNow(False, f"{text}, no job is changed.", advice)
    mode = site.mode if stats is None else Mode(stats["mode"])
    if mode is Mode.OFF:
        text = "Berth is off: mode off, no job is looked at."
        return ChangesNow(False, text, 'mode = "shadow" in the site file')
    if stats is None:
        text = f"Berth does not run here, so no job is changed (mode {mode.value})."
        return ChangesNow(False, text, "systemctl start berth", is_silent=True)
    fit = site.policy.fit.mode
    jobs = []
    if stats["forecasts"]:
        jobs.append(f"{counted(stats['forecasts'], 'program')} with a forecast, by their times")
    if fit in (mode, Mode.ENFORCE):
        jobs.append("all others by the list of partitions where they fit")
    if not jobs:
        return ChangesNow(
            False,
            f"No job is changed: nothing is predicted of any program, and [fit] is {fit.value}.",
            'berth pilot run --store -- CMD, or mode = "enforce" in [fit]',
        )
    sentence = f"{_WHO[mode]} {'; '.join(jobs)}{_left_out(site)}."
    undecided = sum(breaker["undecided"] for breaker in stats["breakers"].values())
    if undecided:
        sentence += (
            f" {counted(round(undecided), 'submission')} went on unchanged because the daemon "
            "gave no answer in time."
        )
    return ChangesNow(mode is Mode.ENFORCE, sentence)


def _left_out(site: Site) -> str:
    """Return which jobs [coverage] leaves out, as the end of a sentence."""
    coverage = site.coverage
    names = [
        name for name in ("users", "accounts", "partitions")
        if (listed := getattr(coverage, name)).include or listed.exclude
    ]  # fmt: skip
    names += [] if coverage.unnamed_partition else ["jobs that name no partition"]
    return f" ([coverage] leaves out some: {', '.join(names)})" if names else ""
