"""The answering thread's look-up tables: forecasts by workload, and workloads by script
fingerprint.

Forecasts stay compressed until they are used, and only recently used ones stay decompressed, so
that thousands of workloads fit into the daemon's memory. A Shelf is not modified, except for its
cache: the thread that watches the store makes a new Shelf and replaces the old one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.pilot.bounded import BoundedCache
from berth.pilot.errors import DocumentError
from berth.plugin.store.records import MemoryNeedRecord
from berth.plugin.store.store import Changes
from berth.predictor.core.forecast import Forecast

UNPACKED_KEPT = 400
"""Number of forecasts kept decompressed. Users have learnt forecasts of their own; one with 110
points takes 62 kB, so 400 take 25 MB.
"""


class Attached(NamedTuple):
    """The workload, and its size, to which a script's fingerprint is attached."""

    workload: str
    size: float | None


class Shelf:
    """Forecasts by workload name, and workloads by fingerprint, at one revision of the store."""

    def __init__(
        self,
        revision: int = 0,
        names: Iterable[str] = (),
        packed: Mapping[str, bytes] | None = None,
        scripts: Mapping[tuple[str, str], Attached] | None = None,
        *,
        learnt: Mapping[tuple[str, str], bytes] | None = None,
        memory_needs: Mapping[str, MemoryNeedRecord] | None = None,
        identity: int = 0,
    ) -> None:
        self.identity = identity
        """Identity of the store that the tables were read from."""
        self.revision = revision
        self.names = frozenset(names)
        self._packed = dict(packed or {})
        self._scripts = dict(scripts or {})
        self._learnt = dict(learnt or {})
        self.memory_needs = dict(memory_needs or {})
        """Measured memory needs of past jobs, by the jobs' keys."""
        self._unpacked: BoundedCache[tuple[str, str | None], Forecast] = BoundedCache(
            UNPACKED_KEPT, by_use=True
        )

    @classmethod
    def of(cls, forecasts: Iterable[Forecast]) -> Shelf:
        """Return a Shelf with these forecasts, without a store."""
        packed = {f.workload: _packed(f.to_json()) for f in forecasts}
        return cls(1, packed, packed)

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def learnt(self) -> int:
        """Return the number of forecasts that were adjusted by finished jobs."""
        return len(self._learnt)

    def forecast(self, name: str, user: str = "") -> Forecast | None:
        """Return the workload's forecast for a user's jobs; None: missing or unreadable.

        A forecast learnt from the user's own finished jobs comes first, then one learnt from all
        users' jobs, then the forecast without learning.
        """
        key: tuple[str, str | None] = (name, user)
        packed = self._learnt.get((name, user)) if user else None
        if packed is None:
            key, packed = (name, ""), self._learnt.get((name, ""))
        if packed is not None:
            learnt = self._unpacked_of(key, packed)
            if learnt is not None:
                return learnt
        packed = self._packed.get(name)
        return None if packed is None else self._unpacked_of((name, None), packed)

    def _unpacked_of(self, key: tuple[str, str | None], packed: bytes) -> Forecast | None:
        forecast = self._unpacked.get(key)
        if forecast is not None:
            return forecast
        try:
            forecast = Forecast.from_json(zlib.decompress(packed))
        except (DocumentError, zlib.error):
            return None
        return self._unpacked.put(key, forecast)

    def attached(self, digest: str, user: str) -> Attached | None:
        """Return the workload attached to a script for this user's jobs, or else for all users'
        jobs; None: none is.
        """
        return self._scripts.get((digest, user)) or self._scripts.get((digest, ""))

    @property
    def has_scripts(self) -> bool:
        """Return whether any script fingerprint is attached; if not, no fingerprint need be
        computed.
        """
        return bool(self._scripts)

    def updated(self, changes: Changes) -> Shelf:
        """Return a new Shelf with the changes applied; this Shelf is not modified."""
        packed = {name: data for name, data in self._packed.items() if name in changes.workloads}
        for name in changes.without_forecast:
            packed.pop(name, None)
        for record in changes.forecasts:
            packed[record.workload] = _packed(record.document)
        scripts = {(r.digest, r.owner): Attached(r.workload, r.size) for r in changes.fingerprints}
        learnt = {key: data for key, data in self._learnt.items() if key in changes.learnt_keys}
        for forecast in changes.learnt:
            learnt[forecast.workload, forecast.user] = _packed(forecast.document)
        return Shelf(
            changes.revision,
            changes.workloads,
            packed,
            scripts,
            learnt=learnt,
            memory_needs={need.digest: need for need in changes.memory_needs},
            identity=changes.identity,
        )


def _packed(document: str) -> bytes:
    return zlib.compress(document.encode(), level=1)
