"""Doctor's checks of the store, of its disk, and of what finished jobs show of the predictions."""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from berth.plugin.daemon.spool import spool_path
from berth.plugin.doctor.bundles import check_forecasts
from berth.plugin.findings import Findings, fail, ok, warn
from berth.plugin.outcomes.shadow import would_have_changed
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.plugin.store.database import Database
from berth.policies.values import Mode

if TYPE_CHECKING:
    from berth.plugin.learning.shown import NewestJobs

SHARED_FILE_SYSTEMS = frozenset(
    ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "ceph", "fuse.ceph")
).union(("fuse.sshfs", "afs", "panfs", "wekafs", "9p"))
"""File systems shared by several hosts, on which SQLite's locks may fail
(sqlite.org/howtocorrupt)."""
LEAST_FREE_BYTES = 512 * 2**20
AHEAD_S = 60.0
"""Records with a time further than this in the future came from a host with a wrong clock."""
WAITING_S = 600.0
"""Spooled decisions older than this are reported, as no daemon seems to store them."""
PATIENCE_S = 1.0
MOUNTS = Path("/proc/self/mounts")
_RECENT_S = 7 * 86_400.0
_LATE_S = 600.0


def opened(site: Site) -> Store:
    """Return the site's store, opened without creating or checking it. Raises StoreError, also
    if the store stays locked for ``PATIENCE_S`` seconds."""
    return Store.reading(site.daemon.store, check=False, busy_timeout_s=PATIENCE_S)


def check_store(site: Site) -> Findings:
    """Check the store's integrity, access rights, content and clock."""
    with closing(opened(site)) as store:
        yield from _look(site, store)


def _look(site: Site, store: Store) -> Findings:
    problem = store.database.integrity_problem()
    if problem is not None:
        yield fail("store", f"{store.name}: damaged: {problem}", "restore a backup of it")
        return
    changes = store.changes_since(0)
    yield ok("store", f"{store.name}: {len(changes.workloads)} workloads")
    if store.database.is_large:
        yield ok(
            "store",
            "it is large: its decisions and outcomes were not searched for damage; "
            f"sqlite3 {store.name} 'PRAGMA quick_check' searches all of it",
        )
    if store.database.path is not None and store.database.path.stat().st_mode & stat.S_IRWXO:
        yield warn(
            "store",
            "everybody on this host can read who submitted what",
            f"chmod o-rwx {store.database.path}",
        )
    yield from check_forecasts(site, changes.forecasts, changes.without_forecast)
    newest = next((record.time_s for record in store.decisions.last(1)), 0.0)
    if newest > time.time() + AHEAD_S:
        yield warn(
            "clock",
            f"the newest decision was stored {newest - time.time():.0f} s from now",
            "set this host's clock and the daemon's by NTP (chronyc tracking)",
        )


def check_ready(site: Site) -> Findings:
    """Say, at a site in mode shadow where nothing fails, what would have changed in the last
    week, and how to go on."""
    if site.mode is not Mode.SHADOW:
        return
    with closing(opened(site)) as store:
        week = would_have_changed(store, time.time() - _RECENT_S)
    if week is None:
        yield ok("ready", "not yet: no job was submitted in mode shadow in the last 7 days")
    else:
        yield ok(
            "ready",
            f'ready. Last 7 days: {week} Next: mode = "enforce" in {site.source}, and '
            'control = "list" in [policy], with which berth jobs gain measures what it brings',
        )


def check_left_behind(site: Site) -> Findings:
    """Warn of decisions in files beside the store that are not stored, or could not be read
    back."""
    database = Database(site.daemon.store)
    spool = spool_path(site, database)
    waits_s = time.time() - spool.stat().st_mtime if spool.exists() else 0.0
    if waits_s > WAITING_S and spool.stat().st_size:
        yield warn(
            "stale state",
            f"decisions wait in {spool}, the last one for {waits_s / 60:.0f} min",
            "start the daemon, which brings them in; if it runs: its log says what keeps it",
        )
    left = [(spool.with_name(spool.name + ".bad"), "decisions that could not be read back")]
    if database.path is not None:
        file = database.path
        left += [
            (file.with_name(file.name + tail), "the log of a database that was deleted")
            for tail in ("-wal.orphaned", "-shm.orphaned")
        ]
    for path, text in left:
        if path.exists():
            yield warn("stale state", f"{path}: {text}", "look, then remove it")


def check_disk(site: Site) -> Findings:
    """Check that the store's file is on a local disk with free space; a database server is not
    checked."""
    file = Database(site.daemon.store).path
    if file is None:
        return
    folder = next(path for path in file.parents if path.is_dir())
    kind = file_system_of(folder.resolve(), MOUNTS.read_text(errors="replace"))
    if kind in SHARED_FILE_SYSTEMS:
        yield warn(
            "disk",
            f"{folder} is on {kind}, where SQLite's locks may not hold",
            "put the store on a local disk, or into PostgreSQL: daemon.store",
        )
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        yield warn(
            "disk",
            f"{free / 2**20:.0f} MiB are left at {folder}: decisions will soon wait in the spool",
            "make room, or berth site store prune --older-than-days 30",
        )


def file_system_of(folder: Path, mounts: str) -> str:
    """Return the type of the file system that holds ``folder``, from the text of ``/proc/mounts``;
    "" if none matches.

    A space in a mount point is written as ``\\040`` there.
    """
    best, kind = -1, ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        at = Path(words[1].replace("\\040", " "))
        if folder.is_relative_to(at) and len(at.parts) >= best:
            best, kind = len(at.parts), words[2]
    return kind


def check_learning(site: Site, newest: Callable[[], NewestJobs] | None = None) -> Findings:
    """Check the predictions of the newest finished jobs; ``newest`` returns their evaluation
    where the caller already has it."""
    from berth.plugin.learning.shown import NewestJobs  # noqa: PLC0415 - numpy

    if newest is not None:
        yield from _learnt(newest())
        return
    with closing(opened(site)) as store:
        yield from _learnt(NewestJobs(store))


def _learnt(newest: NewestJobs) -> Findings:
    from berth.plugin.learning.counted import COUNTED  # noqa: PLC0415 - numpy
    from berth.plugin.learning.learner import notices  # noqa: PLC0415
    from berth.plugin.learning.shown import MOST_SHOWN  # noqa: PLC0415

    now_s = time.time()
    store, records = newest.store, newest.stored.last
    of = f"the newest {MOST_SHOWN:,}" if len(records) == MOST_SHOWN else str(len(records))
    counted = sum(record.use in COUNTED for record in records)
    learnt = len(store.learning.inputs())
    yield ok("learning", f"{counted} of {of} ended jobs count; {learnt} forecasts are learnt")
    late = store.learning.pending(now_s - _RECENT_S, 1)
    if late and (late[0].end_s or now_s) < now_s - _LATE_S:
        yield warn(
            "learning",
            "jobs that ended more than ten minutes ago are not learnt from",
            "does the daemon run, with [learning] enabled? by hand: berth jobs learn",
        )
    history = newest.history
    for name in history.platforms:
        holding = history.holding(name)
        if holding.fails:
            yield warn(
                "learning",
                f"predicted times on {name} held for only {holding.inside} of the last "
                f"{holding.jobs} jobs: who ran them is not sent there on their strength",
                "berth jobs outcomes --jobs; has the platform changed? berth site calibrate",
            )
    for text in notices(history, now_s - _RECENT_S):
        yield warn("learning", text, "berth site calibrate, where a platform changed")
