"""What a user may do in the store: change own workloads, and read shared ones.

The user is the one whose process sends the request; admins may change all workloads. Forecasts are
always made here, and never taken from a user.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.usage.line import parse_line, usage_of
from berth.plugin.forecasting import forecaster_for, platforms_for, reference_of
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site.load import SiteWatcher
from berth.plugin.site.site import Site
from berth.plugin.store import Store, WorkloadRecord
from berth.plugin.store.records import FingerprintRecord
from berth.plugin.workloads.filing import add_workload, refresh, workload_in
from berth.plugin.workloads.names import may_use, own_name, owner_in
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import Workload, parse_workload

WAIT_S = 60.0
"""Seconds to wait for other users' forecasts; only one is made at a time."""
MOST_WORKLOADS = 200
"""Maximum number of workloads that one user may have in the store."""
SCRIPTS_PER_USER = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """The user at the other end of a connection, and whether this user administers the site."""

    uid: int
    name: str
    admin: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class AddedWorkload:
    """The result of adding a user's workload."""

    name: str
    forecast: Forecast
    shared: str | None
    """The name under which all users can use it; None: it is not shared."""


class UserWorkloads:
    """The store with users' rights checked. Every method may raise UsageError or StoreError."""

    def __init__(
        self, store: Store, watcher: SiteWatcher, *, believed: Collection[str] = ("root",)
    ) -> None:
        """``believed``: users whose word on what jobs used counts for everybody's jobs."""
        self.store = store
        self._believed = frozenset(believed)
        self._watcher = watcher
        self._busy = threading.Lock()
        self._made: tuple[str, Forecaster] | None = None

    def add(
        self,
        peer: Peer,
        text: str,
        *,
        name: str | None = None,
        replace: bool = False,
        share: bool = False,
        script: FingerprintRecord | None = None,
    ) -> AddedWorkload:
        """Store a workload's document, with its forecast, as the user's own."""
        with self._one_at_a_time() as site:
            parsed = parse_workload(text, source="the workload")
            workload = dataclasses.replace(parsed, name=own_name(peer.name, name or parsed.name))
            exists = self.store.workload(workload.name) is not None
            if not exists and self.store.count_of(peer.name) >= MOST_WORKLOADS:
                raise UsageError(
                    f"you have {MOST_WORKLOADS} workloads already",
                    hint="remove some: berth workload remove NAME",
                )
            forecast = self._stored(workload, peer.name, site, replace=replace)
            if script is not None:
                self._attach(peer, script, workload.name)
            shared = self._share(peer, workload.name, site) if share else None
        return AddedWorkload(workload.name, forecast, shared)

    def add_usage(self, peer: Peer, text: str) -> str:
        """Store what a job used on one node, and return the job's id; a user's word counts for
        that user's jobs only, that of a believed user is the site's."""
        line = parse_line(text, "the line of usage")
        reporter = "" if peer.name in self._believed else peer.name
        site = self._watcher.poll().site
        job_id = open_scheduler(site).job_id(line.array_task or line.job)
        if job_id is None:
            raise UsageError(f"{line.job} is no job id of {site.scheduler}")
        job_id = self.store.past_jobs.ids_of_raw(site.name, [job_id]).get(job_id, job_id)
        usage = usage_of(line, site.name, job_id, reporter, time.time())
        self.store.usages.put([usage])
        return usage.job_id

    def visible(self, peer: Peer, name: str) -> WorkloadRecord | None:
        """Return the workload that ``name`` means for this user: the user's own, else the shared
        one."""
        own = None if "/" in name else self.store.workload(f"{peer.name}/{name}")
        if own is not None:
            return own
        return self.store.workload(name) if peer.admin or may_use(peer.name, name) else None

    def page(self, peer: Peer, after: str, count: int) -> list[WorkloadRecord]:
        """Return the next ``count`` workloads after ``after`` by name: the user's own and shared
        ones."""
        records = self.store.workloads_after(after, None if peer.admin else peer.name, count)
        return [r for r in records if peer.admin or may_use(peer.name, r.name)]

    def remove(self, peer: Peer, name: str) -> bool:
        """Remove a workload; return False where the user can see none of that name."""
        record = self.visible(peer, name)
        if record is None:
            return False
        self._check_owner(peer, record)
        return self.store.remove_workload(record.name)

    def refresh(self, peer: Peer, names: Collection[str]) -> list[str]:
        """Predict the user's own workloads again (``names``, or all); return the names."""
        with self._one_at_a_time() as site:
            records = [self._known(peer, name) for name in names]
            if not names:
                records = [r for r in self.store.workloads() if owner_in(r.name) == peer.name]
            for record in records:
                self._check_owner(peer, record)
            forecasts = refresh(
                self.store,
                [record.name for record in records],
                forecaster=self._forecaster(site),
                platforms=platforms_for(site),
                reference=reference_of(site),
            )
        return [forecast.workload for forecast in forecasts]

    def share(self, peer: Peer, name: str) -> str | None:
        """Share a workload with all users, or request that; admins, and users where sharing is
        open, need no approval.

        Returns the shared name; None: an admin has to approve it.
        """
        with self._one_at_a_time() as site:
            record = self._known(peer, name)
            self._check_owner(peer, record)
            return self._share(peer, record.name, site)

    # Implementation

    def _share(self, peer: Peer, name: str, site: Site) -> str | None:
        """Store a shared copy, so that later changes of the original do not affect other users."""
        if not (peer.admin or site.daemon.open_sharing):
            self.store.ask_to_share(name, time.time())
            return None
        target = name.rpartition("/")[2]
        present = self.store.workload(target)
        if present is not None and not peer.admin and present.owner != peer.name:
            raise UsageError(f"a shared workload named {target!r} is there, and is not yours")
        original = self.store.workload(name)
        if original is None:
            raise UsageError(f"{name} was removed meanwhile")
        copy = dataclasses.replace(workload_in(self.store, original), name=target)
        self._stored(copy, "" if peer.admin else peer.name, site, replace=True)
        return target

    def _stored(self, workload: Workload, owner: str, site: Site, *, replace: bool) -> Forecast:
        return add_workload(
            self.store,
            workload,
            forecaster=self._forecaster(site),
            platforms=platforms_for(site),
            owner=owner,
            reference=reference_of(site),
            replace=replace,
        )

    def _attach(self, peer: Peer, script: FingerprintRecord, name: str) -> None:
        if self.store.count_scripts(peer.name) >= SCRIPTS_PER_USER:
            raise UsageError(f"you have {SCRIPTS_PER_USER} scripts already")
        self.store.attach_script(dataclasses.replace(script, workload=name, owner=peer.name))

    def _known(self, peer: Peer, name: str) -> WorkloadRecord:
        record = self.visible(peer, name)
        if record is None:
            raise UsageError(f"there is no workload {name!r}", hint="see: berth workload list")
        return record

    def _check_owner(self, peer: Peer, record: WorkloadRecord) -> None:
        if not peer.admin and peer.name not in (owner_in(record.name), record.owner):
            raise UsageError(
                f"{record.name} is shared by all users: only an admin may change it",
                hint="add one of your own: your jobs then use that",
            )

    @contextmanager
    def _one_at_a_time(self) -> Iterator[Site]:
        if not self._busy.acquire(timeout=WAIT_S):
            raise BerthError("forecasts of other users are being made", hint="try again later")
        try:
            yield self._watcher.poll().site
        finally:
            self._busy.release()

    def _forecaster(self, site: Site) -> Forecaster:
        if self._made is None or self._made[0] != site.digest:
            self._made = site.digest, forecaster_for(site)
        return self._made[1]
