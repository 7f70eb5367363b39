"""The look-up tables of the answering thread: workload -> Forecast, fingerprint -> workload.

Forecasts stay compressed until they are asked for, and only the most recent stay unpacked, so
that thousands of workloads fit the daemon's memory. A Shelf is never changed but by its own
thread's cache: the watcher makes a new one and swaps it in whole.
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
"""Users have learnt forecasts of their own. One of 110 points takes 62 kB, all of them 25 MB."""


class Attached(NamedTuple):
    """What a script's fingerprint stands for."""

    workload: str
    size: float | None


class Shelf:
    """Forecasts by workload name and workloads by fingerprint, as of one revision of the store."""

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
        """Of the store that this was read from."""
        self.revision = revision
        self.names = frozenset(names)
        self._packed = dict(packed or {})
        self._scripts = dict(scripts or {})
        self._learnt = dict(learnt or {})
        self.memory_needs = dict(memory_needs or {})
        """What past jobs needed, by their keys."""
        self._unpacked: BoundedCache[tuple[str, str | None], Forecast] = BoundedCache(
            UNPACKED_KEPT, by_use=True
        )

    @classmethod
    def of(cls, forecasts: Iterable[Forecast]) -> Shelf:
        """Make a Shelf of these forecasts, without a store."""
        packed = {f.workload: _packed(f.to_json()) for f in forecasts}
        return cls(1, packed, packed)

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def learnt(self) -> int:
        """Return how many forecasts finished jobs have moved."""
        return len(self._learnt)

    def forecast(self, name: str, user: str = "") -> Forecast | None:
        """Return the forecast of that workload for a user's jobs; None where there is none (or an
        unreadable one).

        What the user's own finished jobs taught comes first, then what everybody's forecast
        learnt, then the forecast without learning.
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
        """Return what a script stands for: for this user, else for all; None: nothing."""
        return self._scripts.get((digest, user)) or self._scripts.get((digest, ""))

    @property
    def has_scripts(self) -> bool:
        """Return whether a fingerprint can match: else none need be computed."""
        return bool(self._scripts)

    def updated(self, changes: Changes) -> Shelf:
        """Return a new Shelf with the changes applied; this one stays as it is."""
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
