"""Assembles ``berth serve`` from its parts: site file, store, socket, threads and signals."""

from __future__ import annotations

import gc
import logging
import os
import pwd
import resource
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from berth.pilot.errors import BerthError, DocumentError
from berth.pilot.units import whole_number
from berth.plugin.daemon.core import AnsweringCore
from berth.plugin.daemon.following import (
    SITE_PERIOD_S,
    ExpectedWaits,
    follow_cluster,
    follow_jobs,
    follow_waits,
    with_waits,
)
from berth.plugin.daemon.listener import Listener
from berth.plugin.daemon.memory_guard import beside, load_or_nobody
from berth.plugin.daemon.outcomes import follow_outcomes
from berth.plugin.daemon.server import End
from berth.plugin.daemon.spool import spool_path
from berth.plugin.daemon.systemd import Notifier
from berth.plugin.daemon.threads import Periodic
from berth.plugin.daemon.view import SiteView, killed
from berth.plugin.outcomes.failed_at_once import FailedAtOnce
from berth.plugin.scheduler import SCHEDULERS, ReadStates, state_reader
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.scheduler.ruled_out import load as load_ruled_out
from berth.plugin.scheduler.ruled_out import with_ruled_out
from berth.plugin.site.load import SiteWatcher
from berth.plugin.site.site import Site
from berth.plugin.store.store import Store
from berth.policies.decide import Decider

log = logging.getLogger("berth.serve")

_BUSY_S = 2.0
"""Seconds to wait for a locked store before decisions go to the spool."""
_SWITCH_INTERVAL_S = 0.0001
"""Seconds that a background thread may hold the interpreter lock while the answering
thread waits.
"""
_COLLECTION_THRESHOLDS = (2_000, 50, 100)
"""Python's cyclic garbage collector stops every thread while it scans all stored rankings (30 to
150 ms). The daemon creates few reference cycles, so the collector runs less often than with
Python's defaults (700, 10, 10).
"""
_DESCRIPTORS = 4096
WAITS_REFRESH_S = 60.0
"""Seconds between two look-aheads that give the expected waits."""
LEARNING_PERIOD_S = 20.0
"""Seconds between two looks for jobs that have ended, from which the daemon learns."""
_OUTCOMES_AFTER_S = 10.0
"""The first accounting query is delayed until the daemon has been serving for this many seconds."""


def view(site: Site) -> SiteView:
    """Return the parts of the site file that the answering thread needs."""
    return SiteView(
        mode=site.mode,
        decider=Decider(site.candidates, site.policy),
        coverage=site.coverage,
        schedulers={n: SCHEDULERS.load(n) for n in (*SCHEDULERS.own(), site.scheduler)},
        auto_queue=site.auto_queue,
        fit_mode=site.policy.fit.mode,
        kill_switch=site.daemon.kill_switch,
        right_sizing=site.right_sizing,
        slices_from_use=site.slices_from_use,
        show=site.show,
        programs=site.programs,
    )


def uids_of(site: Site) -> frozenset[int]:
    """Return the uids that may connect: the site's scheduler users, root and the daemon's own
    user.
    """
    return frozenset({0, os.geteuid(), *_resolve(site.daemon.scheduler_users, site.source)})


def socket_group(site: Site) -> int | None:
    """Return the id of the group that must be able to open the socket: that of the scheduler's
    user.

    None: only root or the daemon's own user connects.
    """
    for uid in _resolve(site.daemon.scheduler_users, site.source):
        if uid not in (0, os.geteuid()):
            with suppress(KeyError):
                return pwd.getpwuid(uid).pw_gid
    return None


def _resolve(users: Iterable[str], source: str) -> Iterable[int]:
    for user in users:
        uid = whole_number(user, 2**32 - 1)
        if uid is not None:
            yield uid
            continue
        try:
            yield pwd.getpwnam(user).pw_uid
        except KeyError:
            raise DocumentError(
                source,
                f"there is no user {user!r} on this host",
                key="daemon.scheduler_users",
                hint="name the user that the scheduler runs as (SlurmUser, or flux)",
            ) from None


class Daemon:
    """The running daemon ``berth serve``. Raises BerthError where it cannot start."""

    def __init__(self, site_file: Path) -> None:
        self._watcher = SiteWatcher(site_file)
        site = self._watcher.site
        uids = uids_of(site)
        self._store = store = Store.open(site.daemon.store, busy_timeout_s=_BUSY_S)
        self._notifier = Notifier()
        self._core = AnsweringCore(
            view(site),
            store,
            spool_path(site, store.database),
            Listener(site.daemon.socket, group=socket_group(site)),
            uids,
            background=self._summary,
            tick=self._tick,
        )
        self.service, self.server = self._core.service, self._core.server
        self._waits = ExpectedWaits(WAITS_REFRESH_S)
        self._failed = FailedAtOnce()
        self._threads = self._threads_of(site)
        self._site_thread = Periodic("site watcher", SITE_PERIOD_S, self._look_at_site)
        self._hup = False

    def run(self) -> int:
        """Serve until a signal, ``stop`` or the loss of the socket; return the exit status."""
        self._install_signals()
        _raise_descriptor_limit()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._core.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_COLLECTION_THRESHOLDS)
        for thread in (self._site_thread, *self._threads):
            thread.start()
        site = self._watcher.site
        log.info(
            "ready socket=%s mode=%s candidates=%d forecasts=%d",
            site.daemon.socket,
            site.mode.value,
            len(site.candidates),
            len(self.service.shelf),
        )
        self._notifier.tell("READY=1")
        end = self.server.run()
        self._notifier.tell("STOPPING=1")
        for thread in (self._site_thread, *self._threads):
            thread.stop()
        self._core.stop()
        log.info("stopped")
        return 0 if end is End.STOPPED else 1

    def _install_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.server.stop())
        signal.signal(signal.SIGHUP, self._on_hup)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _on_hup(self, *_: object) -> None:
        self._hup = True
        self._site_thread.poke()

    def _tick(self) -> None:
        self._notifier.tell("WATCHDOG=1")

    def _look_at_site(self) -> None:
        before = self._watcher.site
        forced, self._hup = self._hup, False
        look = self._watcher.reload() if forced else self._watcher.poll()
        if look.problem is not None:
            raise BerthError(f"{look.problem}; the site file read before stays in force")
        if not look.changed:
            return
        site = look.site
        self.server.uids = uids_of(site)
        self.service.site = view(site)
        for key in ("socket", "store"):
            if getattr(site.daemon, key) != getattr(before.daemon, key):
                log.warning("daemon.%s has changed: that needs a restart", key)
        for thread in self._threads:
            thread.stop()
        self._waits = ExpectedWaits(WAITS_REFRESH_S)
        self._threads = self._threads_of(site)
        for thread in self._threads:
            thread.start()
        log.info(
            "site file read again: mode=%s candidates=%d", site.mode.value, len(site.candidates)
        )

    def _threads_of(self, site: Site) -> list[Periodic]:
        """Create the background threads for this site; called again when the site file changes."""
        service, settings = self.service, site.daemon
        soon_s = min(_OUTCOMES_AFTER_S, settings.outcomes_refresh_s)
        threads = [
            Periodic(
                "cluster reader",
                settings.state_refresh_s,
                follow_cluster(
                    service,
                    with_waits(
                        with_ruled_out(read_states_of(site), self._failed.entries), self._waits
                    ),
                    partial(load_or_nobody, beside(settings.ruled_out)),
                ),
            )
        ]
        if service.site.decider.counts_waits:
            step = follow_waits(site, lambda: service.snapshot.states, self._waits)
            delay_s = min(_OUTCOMES_AFTER_S, WAITS_REFRESH_S)
            threads.append(Periodic("look-ahead", WAITS_REFRESH_S, step, delay_s=delay_s))
        if settings.outcomes_refresh_s:
            step = follow_outcomes(self._store, site, open_scheduler(site), self._failed)
            threads.append(
                Periodic("outcome reader", settings.outcomes_refresh_s, step, delay_s=soon_s)
            )
        if settings.outcomes_refresh_s and site.learning.enabled:
            period_s = min(LEARNING_PERIOD_S, max(1.0, settings.outcomes_refresh_s))
            step = follow_jobs(self._store, site)
            threads.append(Periodic("learning", period_s, step, delay_s=soon_s))
        return threads

    def _summary(self) -> dict[str, object]:
        threads = [self._core.store_thread, self._site_thread, *self._threads]
        problems = {t.name: t.problem for t in threads if t.problem is not None}
        switch = self._watcher.site.daemon.kill_switch
        if killed(switch):
            problems["kill switch"] = f"{switch} stops every placement"
        return {
            "site": self._watcher.site.source,
            "connections": dict(self.server.counts),
            "recorder": self._core.recorder.summary(),
            "waits_age_s": self._waits.age_s,
            "problems": problems,
        }


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def read_states_of(site: Site) -> ReadStates:
    """Return the function that reads the candidates' states from this site's scheduler."""
    read = state_reader(open_scheduler(site), site.candidates)
    return with_ruled_out(read, partial(load_ruled_out, site.daemon.ruled_out))
