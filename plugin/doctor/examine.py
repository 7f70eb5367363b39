"""Runs all checks of an installation; each finding says what to do.

A check that raises a BerthError or OSError becomes a finding with status ``fail``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth.pilot.collectors.registry import COLLECTORS, collector_of
from berth.pilot.errors import BerthError, SchedulerError
from berth.pilot.plugins import Registry
from berth.pilot.progress import steps
from berth.plugin.calibrate.state import check_calibration
from berth.plugin.daemon.app import uids_of
from berth.plugin.daemon.client import ask
from berth.plugin.doctor.bundles import check_bundles, check_candidates
from berth.plugin.doctor.cluster import check_cluster
from berth.plugin.doctor.daemon import (
    check_daemon,
    check_denials,
    check_rights,
    check_socket,
    check_users,
)
from berth.plugin.doctor.settings import check_paths, check_settings
from berth.plugin.doctor.store import (
    check_disk,
    check_learning,
    check_left_behind,
    check_ready,
    check_store,
)
from berth.plugin.doctor.usage import check_usage
from berth.plugin.findings import Finding, Findings, Status, fail, ok, warn
from berth.plugin.scheduler import Scheduler
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site.changes_now import changes_now
from berth.plugin.site.site import Site

if TYPE_CHECKING:
    from berth.plugin.learning.shown import NewestJobs


_SILENT = "start it (systemctl status slurmctld); what needs its answer was not checked"


def examine(site: Site, newest: Callable[[], NewestJobs] | None = None) -> Findings:
    """Run every check that needs a site file, each after the checks that it depends on.

    If several checks fail for the same cause, only the first of them reports it. ``newest`` returns
    the evaluation of the newest jobs, where the caller already has it.
    """
    scheduler = cache(partial(open_scheduler, site))
    silent = cache(lambda: scheduler().why_silent())

    def awake() -> Scheduler:
        """Return the scheduler. Raises SchedulerError where it does not answer within seconds."""
        why = silent()
        if why is not None:
            raise SchedulerError(f"{scheduler().title} does not answer: {why}", hint=_SILENT)
        return scheduler()

    answer = cache(lambda: _asked(site))
    checks: list[tuple[str, Callable[[], Findings]]] = [
        ("site file", lambda: _site(site, answer())),
        ("site file", lambda: check_rights(site)),
        ("settings", lambda: check_settings(site)),
        ("paths", lambda: check_paths(site)),
        ("bundle", lambda: check_bundles(site)),
        ("platform", lambda: check_candidates(site)),
        ("store", lambda: check_store(site)),
        ("disk", lambda: check_disk(site)),
        ("stale state", lambda: check_left_behind(site)),
        ("learning", lambda: check_learning(site, newest)),
        ("usage", lambda: check_usage(site)),
        ("daemon", lambda: check_daemon(site, answer())),
        ("socket", lambda: check_socket(site)),
        ("users", lambda: check_users(site)),
        ("scheduler", lambda: check_cluster(site, awake())),
        ("calibration", lambda: check_calibration(site, awake)),
        ("filter", lambda: scheduler().check_filter(site)),
        ("scheduler", lambda: awake().check_setup(site)),
        ("denials", check_denials),
    ]
    failures: set[tuple[str, str | None]] = set()
    for check, look in steps("checks made", checks):
        for finding in _guarded(check, look):
            failure = (finding.text, finding.advice)
            if failure not in failures:
                yield finding
            if finding.status is Status.FAIL:
                failures.add(failure)
    if not failures:
        yield from _guarded("ready", lambda: check_ready(site))


def examine_packages(registries: Iterable[Registry[Any]]) -> Findings:
    """Report the entry points that other packages add to Berth, and those that cannot be loaded."""
    for registry in registries:
        for problem in registry.problems():
            yield warn("packages", problem.text, "upgrade that package, or uninstall it")
        added = sorted(set(registry.names()).difference(registry.own()))
        if added:
            yield ok("packages", f"{registry.group}: {', '.join(added)}")


def examine_machine() -> Findings:
    """Report which collectors a pilot could use on this machine."""
    with tempfile.TemporaryDirectory(prefix="berth-doctor-") as folder:
        for name in COLLECTORS.load_all():
            yield _collector(name, collector_of(name, Path(folder)).probe())


def _collector(name: str, absent: str | None) -> Finding:
    if absent is None:
        return ok("collector", f"{name} can be used here")
    return warn("collector", f"{name}: {absent}", "pilots do without it")


def _guarded(check: str, look: Callable[[], Findings]) -> Findings:
    try:
        yield from look()
    except BerthError as error:
        yield fail(check, error.message, error.hint)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}"
        yield fail(check, text, "correct its rights, or run berth site doctor as root")


def _asked(site: Site) -> dict[str, Any] | BerthError:
    """Return the daemon's answer, or why there is none."""
    try:
        return ask(site.daemon.socket, {"v": 1, "op": "stats"})
    except BerthError as error:
        return error


def _site(site: Site, answer: dict[str, Any] | BerthError) -> Findings:
    text = f"{site.source}: {len(site.candidates)} candidates, mode {site.mode.value}"
    if site.candidates:
        yield ok("site file", text)
    else:
        yield fail("site file", text, "describe places in [[candidates]]")
    uids_of(site)
    now = changes_now(site, None if isinstance(answer, BerthError) else answer)
    if now.advice is None or now.is_silent:
        yield ok("changes", now.sentence)
    else:
        yield warn("changes", now.sentence, now.advice)
    if site.auto_queue is None:
        yield ok("auto partition", "there is none: jobs are placed that name no partition or queue")
