"""All metrics together: what cannot be asked is left out, and says so by a metric of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from berth.pilot.errors import BerthError
from berth.plugin.daemon.client import ask
from berth.plugin.metrics.of_daemon import daemon_metrics
from berth.plugin.metrics.of_store import store_metrics
from berth.plugin.site.site import Site
from berth.plugin.store import Store

log = logging.getLogger("berth.metrics")

STORE_PERIOD_S = 60.0
"""Between two readings of the store, however often it is scraped."""
_ANSWER_S = 2.0
Source = Callable[[], Iterable[Metric]]


class Exporter(Collector):
    """Asks the daemon at each scrape, the store at most once a minute."""

    def __init__(
        self,
        daemon: Source,
        store: Source,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._daemon = daemon
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._read: list[Metric] | None = None
        self._store_up = False
        self._next_s = 0.0

    def collect(self) -> Iterator[Metric]:
        """Every metric that can be had now."""
        try:
            found = list(self._daemon())
        except (BerthError, KeyError, TypeError, ValueError) as error:
            log.warning("the daemon's metrics are missing: %s", error)
            found = []
        yield _up("berth_daemon_up", "1: the daemon answers.", bool(found))
        yield from found
        read = self._of_store()
        yield _up("berth_store_up", "1: the store can be read.", self._store_up)
        yield from read

    def describe(self) -> Iterator[Metric]:
        """Nothing: asking must not need a daemon when the exporter starts."""
        return iter(())

    def _of_store(self) -> list[Metric]:
        with self._lock:
            if self._read is None or self._clock() >= self._next_s:
                try:
                    self._read, self._store_up = list(self._store()), True
                except BerthError as error:
                    log.warning("the store's metrics are missing: %s", error)
                    self._read, self._store_up = [], False
                self._next_s = self._clock() + STORE_PERIOD_S
            return self._read


def exporter_of(site: Site) -> Exporter:
    """Of the daemon and the store that a site file names."""

    def of_daemon() -> Iterator[Metric]:
        return daemon_metrics(ask(site.daemon.socket, {"v": 1, "op": "stats"}, timeout_s=_ANSWER_S))

    def of_store() -> Iterator[Metric]:
        with closing(Store.open(site.daemon.store, create=False, check=False)) as store:
            yield from store_metrics(store)

    return Exporter(of_daemon, of_store)


def _up(name: str, text: str, value: bool) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))
