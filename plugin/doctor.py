"""Is this installation sound? Each check looks at one thing and says what to do about it.

A check never raises: what it could not look at is a finding, too.
"""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from berth.pilot.collectors.registry import COLLECTORS, collectors_of
from berth.pilot.errors import BerthError, SchedulerError, ToolMissing
from berth.pilot.plugins import Registry
from berth.plugin.calibrate.state import check_calibration
from berth.plugin.daemon.app import uids_of
from berth.plugin.daemon.client import ask
from berth.plugin.doctor_bundles import check_bundles, check_forecasts, check_places
from berth.plugin.doctor_learning import check_exploring, check_learning
from berth.plugin.findings import Finding, Findings, Status
from berth.plugin.scheduler import ClusterFacts, Scheduler
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.policies.values import Mode

LONG_REFRESHES = 3.0
"""The cluster's state is late when it is older than so many refresh periods."""


def examine(site: Site) -> Findings:
    """Every check that needs a site file, in the order in which they build on each other."""
    yield from _guarded("site file", lambda: _site(site))
    yield from _guarded("bundle", lambda: check_bundles(site))
    yield from _guarded("platform", lambda: check_places(site))
    yield from _guarded("calibration", lambda: check_calibration(site))
    yield from _guarded("store", lambda: _store(site))
    yield from _guarded("learning", lambda: check_learning(site))
    yield from _guarded("exploring", lambda: check_exploring(site))
    yield from _guarded("daemon", lambda: _daemon(site))
    scheduler = site.open_scheduler()
    yield from _guarded("scheduler", lambda: _scheduler(site, scheduler))
    yield from _guarded("filter", lambda: scheduler.check_filter(site))


def examine_packages(registries: Iterable[Registry[Any]]) -> Findings:
    """What other packages add to Berth, and what of it cannot be used."""
    for registry in registries:
        for problem in registry.problems():
            yield Finding(
                "packages", Status.WARN, problem.text, "upgrade that package, or uninstall it"
            )
        added = sorted(set(registry.names()).difference(registry.own()))
        if added:
            yield Finding("packages", Status.OK, f"{registry.group}: {', '.join(added)}")


def examine_machine() -> Findings:
    """What a pilot could measure with on this machine."""
    with tempfile.TemporaryDirectory(prefix="berth-doctor-") as folder:
        for name in COLLECTORS.load_all():
            for collector in collectors_of(name, Path(folder)):
                yield _collector(collector.name, collector.probe())


def _collector(name: str, absent: str | None) -> Finding:
    if absent is None:
        return Finding("collector", Status.OK, f"{name} can be used here")
    return Finding("collector", Status.WARN, f"{name}: {absent}", "pilots do without it")


def _guarded(check: str, look: Callable[[], Findings]) -> Findings:
    try:
        yield from look()
    except BerthError as error:
        yield Finding(check, Status.FAIL, error.message, error.hint)
    except OSError as error:
        yield Finding(check, Status.FAIL, f"{error.filename}: {error.strerror}")


def _site(site: Site) -> Findings:
    text = f"{site.source}: {len(site.candidates)} candidates, mode {site.mode.value}"
    if site.candidates:
        yield Finding("site file", Status.OK, text)
    else:
        yield Finding("site file", Status.FAIL, text, "describe places in [[candidates]]")
    uids_of(site)
    if site.mode is Mode.OFF:
        yield Finding("mode", Status.WARN, "Berth is off", 'set mode = "shadow" in the site file')
    if site.daemon.kill_switch.exists():
        yield Finding(
            "kill switch",
            Status.WARN,
            f"{site.daemon.kill_switch} exists: every job is left alone",
            "remove the file to let Berth work again",
        )
    if site.auto_queue is None:
        yield Finding(
            "auto queue",
            Status.WARN,
            "there is no partition or queue by which users ask Berth to choose",
            "make one and name it: site.auto_partition",
        )


def _store(site: Site) -> Findings:
    store = Store.open(site.daemon.store, create=False, check=False)
    problem = store.database.integrity_problem()
    if problem is not None:
        yield Finding(
            "store", Status.FAIL, f"{store.name}: damaged: {problem}", "restore a backup of it"
        )
        return
    changes = store.changes_since(0)
    yield Finding("store", Status.OK, f"{store.name}: {len(changes.workloads)} workloads")
    if store.database.path is not None and store.database.path.stat().st_mode & stat.S_IRWXO:
        yield Finding(
            "store",
            Status.WARN,
            "everybody on this host can read who submitted what",
            f"chmod o-rwx {store.database.path}",
        )
    yield from check_forecasts(site, changes.forecasts, changes.without_forecast)
    if not changes.workloads:
        yield Finding(
            "store",
            Status.WARN,
            "there are no workloads: every job is left alone",
            "berth pilot run --store -- CMD, or berth workload add FILE",
        )


def _daemon(site: Site) -> Findings:
    answer = ask(site.daemon.socket, {"v": 1, "op": "stats"})
    yield Finding(
        "daemon",
        Status.OK,
        f"answers at {site.daemon.socket}, mode {answer['mode']}, {answer['forecasts']} forecasts",
    )
    age, patience = answer["state_age_s"], LONG_REFRESHES * site.daemon.state_refresh_s
    if age is None or age > patience:
        seen = "never" if age is None else f"{age:.0f} s ago"
        yield Finding(
            "daemon",
            Status.WARN,
            f"it last read the cluster's state {seen}",
            "does its user have the scheduler's commands on its PATH? see its log",
        )
    problems = dict(answer["problems"])
    if answer["recorder"]["problem"]:
        problems["recorder"] = answer["recorder"]["problem"]
    for name, problem in problems.items():
        yield Finding("daemon", Status.WARN, f"{name}: {problem}", "see its log")


def _scheduler(site: Site, scheduler: Scheduler) -> Findings:
    try:
        facts = scheduler.read()
    except (SchedulerError, ToolMissing) as error:
        yield Finding("scheduler", Status.FAIL, error.message, error.hint)
        return
    word = scheduler.queue_word
    yield Finding(
        "scheduler",
        Status.OK,
        f"{facts.version}: {len(facts.queues)} {word}s, {len(facts.nodes)} nodes",
    )
    yield from _queues(site, facts, word)


def _queues(site: Site, facts: ClusterFacts, word: str) -> Findings:
    there = {c.slice_of for c in site.candidates if c.slice_of and c.queue in facts.queues}
    for candidate in site.candidates:
        # Where a queue is made for each profile that GPUs are cut into, some are not there.
        if candidate.queue not in facts.queues and candidate.slice_of not in there:
            yield Finding(
                "candidate",
                Status.FAIL,
                f"{candidate.name}: there is no {word} {candidate.queue}",
                "correct the site file",
            )
    if site.auto_queue is not None and site.auto_queue not in facts.queues:
        yield Finding(
            "auto queue",
            Status.FAIL,
            f"there is no {word} {site.auto_queue}: jobs for it are refused",
            "add it to the scheduler's configuration with a safe set of nodes",
        )
