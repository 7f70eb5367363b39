"""Workloads that were sent to the page, for a while: so that their views have a link.

In memory only, the last few of each viewer; gone when the page ends.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from berth.predictor.core.workload import Workload

MOST = 200
MOST_OF_ONE = 20
MOST_BYTES = 256 * 2**20


class Held:
    """The last workloads of every viewer, by digest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str | None, str], Workload] = OrderedDict()

    def put(self, viewer: str | None, workload: Workload) -> str:
        """Keep it; the key of its link."""
        key = workload.digest.removeprefix("sha256:")[:32]
        with self._lock:
            self._kept[viewer, key] = workload
            self._kept.move_to_end((viewer, key))
            own = [one for one in self._kept if one[0] == viewer]
            for one in own[:-MOST_OF_ONE]:
                del self._kept[one]
            while len(self._kept) > 1 and (len(self._kept) > MOST or self._bytes() > MOST_BYTES):
                self._kept.popitem(last=False)
        return key

    def get(self, viewer: str | None, key: str) -> Workload | None:
        """What this viewer sent; None: nothing, or it is gone."""
        with self._lock:
            return self._kept.get((viewer, key))

    def _bytes(self) -> int:
        """About as much as they take: of large ones, the graph."""
        return sum(_size(one) for one in self._kept.values())


def _size(workload: Workload) -> int:
    lines: tuple[str, ...] = getattr(workload.document, "graph", ())
    return sum(map(len, lines))
