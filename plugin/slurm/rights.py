"""Keeps the limits of users and accounts, read again now and then."""

from __future__ import annotations

import logging
import time

from berth.pilot.errors import BerthError
from berth.plugin.scheduler import ClusterFacts
from berth.plugin.slurm import accounts
from berth.policies.limits import Rights

log = logging.getLogger("berth.serve.accounts")

_OLDEST_S = 3600.0
"""So long the limits last read are believed while they cannot be read anew."""


class RightsReader:
    """Reads them at most every ``period_s`` seconds; what was read before stands in meanwhile."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._queues: dict[str, str] = {}
        self._read_s: float | None = None
        self._tried_s: float | None = None
        self._rights: Rights | None = None
        self._problem: str | None = None

    def of(self, facts: ClusterFacts) -> Rights | None:
        """The limits as they were last read. Never raises: what cannot be read denies."""
        now_s = time.monotonic()
        queues = {name: q.qos for name, q in facts.queues.items() if q.qos is not None}
        fresh = self._tried_s is not None and now_s - self._tried_s < self._period_s
        if fresh and queues == self._queues:
            return self._rights
        self._tried_s, self._queues = now_s, queues
        try:
            self._rights, self._read_s, self._problem = accounts.read(queues), now_s, None
        except BerthError as error:
            if error.message != self._problem:
                log.warning("limits of accounts cannot be read: %s", error.message)
            self._problem = error.message
            if self._read_s is None or now_s - self._read_s > _OLDEST_S:
                self._rights = accounts.Unknown(error.message)
        return self._rights
