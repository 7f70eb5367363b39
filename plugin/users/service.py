"""``berth serve --users``: checks users' requests and answers them.

``serve_users`` assembles site file, store, socket and signals.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from berth.pilot.errors import UsageError
from berth.plugin.daemon.listener import Listener
from berth.plugin.daemon.systemd import Notifier
from berth.plugin.site.load import SiteWatcher
from berth.plugin.store import Store
from berth.plugin.store.records import FingerprintRecord, WorkloadRecord
from berth.plugin.usernames import name_of
from berth.plugin.users.server import UserServer
from berth.plugin.users.workloads import Peer, UserWorkloads

PAGE = 20
PAGE_CHARACTERS = 8 * 1024 * 1024
MOST_NAMES = 100
MOST_DECISIONS = 1_000
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

Request = Mapping[str, Any]
Reply = Mapping[str, object]
T = TypeVar("T")


class UserService:
    """Answers users' requests; each request names its operation."""

    def __init__(self, workloads: UserWorkloads) -> None:
        self._workloads = workloads
        self._store: Store = workloads.store
        self._operations: Mapping[str, Callable[[Peer, Request], Reply]] = {
            "add": self._add,
            "workloads": self._page,
            "workload": self._workload,
            "remove": self._remove,
            "refresh": self._refresh,
            "share": self._share,
            "decisions": self._decisions,
            "decision": self._decision,
            "outcomes": self._outcomes,
        }

    def answer(self, peer: Peer, request: Request) -> Reply:
        """Return the reply to one request. Raises BerthError."""
        operation = self._operations.get(_field(request, "op", str) or "")
        if operation is None:
            raise UsageError(f"op is not one of {', '.join(self._operations)}")
        return operation(peer, request)

    def _add(self, peer: Peer, request: Request) -> Reply:
        added = self._workloads.add(
            peer,
            _required_text(request, "document"),
            name=_field(request, "name", str),
            replace=bool(_field(request, "replace", bool)),
            share=bool(_field(request, "share", bool)),
            script=_script(request),
        )
        return {"name": added.name, "shared": added.shared, "forecast": added.forecast.to_json()}

    def _page(self, peer: Peer, request: Request) -> Reply:
        after = _field(request, "after", str) or ""
        records = _first_of_a_reply(self._workloads.page(peer, after, PAGE))
        return {
            "workloads": [dataclasses.asdict(r) for r in records],
            "bundles": self._store.bundles([r.name for r in records]),
        }

    def _workload(self, peer: Peer, request: Request) -> Reply:
        record = self._workloads.visible(peer, _required_text(request, "name"))
        if record is None:
            return {}
        scripts = self._store.fingerprints(record.name)
        return {
            "workload": dataclasses.asdict(record),
            "forecasts": [dataclasses.asdict(f) for f in self._store.forecasts(record.name)[:1]],
            "scripts": [
                dataclasses.asdict(s) for s in scripts if peer.admin or s.owner in ("", peer.name)
            ],
        }

    def _remove(self, peer: Peer, request: Request) -> Reply:
        return {"removed": self._workloads.remove(peer, _required_text(request, "name"))}

    def _refresh(self, peer: Peer, request: Request) -> Reply:
        names = _field(request, "names", list) or []
        if len(names) > MOST_NAMES or not all(isinstance(name, str) for name in names):
            raise UsageError(f"names is not a list of at most {MOST_NAMES} names")
        return {"refreshed": self._workloads.refresh(peer, names)}

    def _share(self, peer: Peer, request: Request) -> Reply:
        return {"shared": self._workloads.share(peer, _required_text(request, "name"))}

    # Decisions on the user's own jobs

    def _decisions(self, peer: Peer, request: Request) -> Reply:
        count = _field(request, "last", int) or 20
        user = _field(request, "user", str) if peer.admin else peer.name
        before = _field(request, "before", str)
        records = self._store.decisions.last(
            max(1, min(count, MOST_DECISIONS)),
            user=user,
            code=_field(request, "code", str),
            workload=_field(request, "workload", str),
            before=None if before is None else self._store.decisions.get(before),
        )
        return {"decisions": [dataclasses.asdict(r) for r in records]}

    def _decision(self, peer: Peer, request: Request) -> Reply:
        record = self._store.decisions.get(_required_text(request, "id"))
        if record is None or not (peer.admin or record.user == peer.name):
            return {}
        return {"decision": dataclasses.asdict(record)}

    def _outcomes(self, peer: Peer, request: Request) -> Reply:
        ids = _field(request, "decisions", list) or []
        if len(ids) > MOST_DECISIONS or not all(isinstance(decision, str) for decision in ids):
            raise UsageError(f"decisions is not a list of at most {MOST_DECISIONS} ids")
        outcomes = [
            o
            for of_decision in self._store.outcomes.of_decisions(ids).values()
            for o in of_decision
        ]
        job = _field(request, "job", str)
        of_job = None if job is None else self._store.outcomes.of_job(job)
        if of_job is not None:
            outcomes.append(of_job)
        own = [o for o in outcomes if peer.admin or o.user == peer.name]
        return {"outcomes": [dataclasses.asdict(o) for o in own]}


def _first_of_a_reply(records: list[WorkloadRecord]) -> list[WorkloadRecord]:
    """Return as many of the first records as fit into one reply, at least one."""
    size = 0
    for count, record in enumerate(records):
        size += len(record.document)
        if count and size > PAGE_CHARACTERS:
            return records[:count]
    return records


def _field(request: Request, key: str, kind: type[T]) -> T | None:
    value = request.get(key)
    if value is None or type(value) is kind:
        return value
    raise UsageError(f"{key} is not {'true or false' if kind is bool else f'a {kind.__name__}'}")


def _required_text(request: Request, key: str) -> str:
    value = _field(request, key, str)
    if not value:
        raise UsageError(f"{key} is missing")
    return value


def _script(request: Request) -> FingerprintRecord | None:
    digest = _field(request, "script", str)
    if digest is None:
        return None
    if not _DIGEST.fullmatch(digest):
        raise UsageError("script is not a digest: sha256: and 64 hexadecimal digits")
    size = request.get("size")
    if size is not None and not (isinstance(size, int | float) and 0 < size < float("inf")):
        raise UsageError("size is not a positive number")
    return FingerprintRecord(digest, "", None if size is None else float(size), time.time())


log = logging.getLogger("berth.users")

_NICE = 10
"""Niceness of this process: users' requests must not slow down the scheduler."""


def serve_users(site_file: Path) -> int:
    """Serve users' requests until SIGTERM; return the exit status. Raises BerthError where the
    service cannot start."""
    watcher = SiteWatcher(site_file)
    site = watcher.site
    service = UserService(UserWorkloads(Store.open(site.daemon.store), watcher))

    def peer_of(uid: int) -> Peer:
        name = name_of(uid)
        return Peer(uid, name, uid in (0, os.geteuid()) or name in watcher.site.daemon.admins)

    os.nice(_NICE)
    listener = Listener(site.daemon.user_socket, mode=0o666, folder_mode=0o755)
    server = UserServer(listener, service.answer, peer_of)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    log.info("users are served on %s", site.daemon.user_socket)
    Notifier().tell("READY=1")
    return 0 if server.run() else 1
