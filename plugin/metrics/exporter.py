"""All metrics: the daemon's at each scrape, and the store's at most once a minute.

Where the daemon or the store does not answer, its metrics are left out, and a separate metric says
so. No metric names a user.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from operator import attrgetter

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from berth.pilot.errors import BerthError
from berth.plugin.daemon.client import ask
from berth.plugin.metrics.of_daemon import daemon_metrics, labelled
from berth.plugin.outcomes.accuracy import MOST, Accuracy, newest_jobs, summarise
from berth.plugin.site.changes_now import changes_now
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.plugin.store.records import RunSums

log = logging.getLogger("berth.metrics")

STORE_PERIOD_S = 60.0
"""Minimum seconds between two readings of the store, however often metrics are scraped."""
_ANSWER_S = 2.0
Source = Callable[[], Iterable[Metric]]


class Exporter(Collector):
    """Reads metrics from the daemon at each scrape, and from the store at most once a minute."""

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
        """Yield every metric that is available now."""
        try:
            metrics = list(self._daemon())
        except (BerthError, KeyError, TypeError, ValueError) as error:
            log.warning("the daemon's metrics are missing: %s", error)
            metrics = []
        yield _up("berth_daemon_up", "1: the daemon answers.", bool(metrics))
        yield from metrics
        store_metrics_read = self._of_store()
        yield _up("berth_store_up", "1: the store can be read.", self._store_up)
        yield from store_metrics_read

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that registering the exporter needs no running daemon."""
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
    """Return the exporter of the daemon and the store that a site file names."""

    def of_daemon() -> Iterator[Metric]:
        stats = ask(site.daemon.socket, {"v": 1, "op": "stats"}, timeout_s=_ANSWER_S)
        yield from daemon_metrics(stats)
        text = "1: jobs are changed now, as mode, fit, forecasts and kill switch stand."
        yield _up("berth_jobs_changed_now", text, changes_now(site, stats).are_made)

    def of_store() -> Iterator[Metric]:
        with closing(Store.reading(site.daemon.store, check=False)) as store:
            yield from store_metrics(store)

    return Exporter(of_daemon, of_store)


def _up(name: str, text: str, value: bool) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


_DAY_S = 86_400.0
OUTCOME_DAYS = 30.0
CHANGE_DAYS = 7.0


def store_metrics(store: Store) -> Iterator[Metric]:
    """Yield the store's metrics. Raises StoreError where it cannot be read."""
    from berth.plugin.learning.shown import MOST_SHOWN, changes_since  # noqa: PLC0415 - numpy

    now_s = time.time()
    jobs, _ = newest_jobs(store, now_s - OUTCOME_DAYS * _DAY_S, now_s + _DAY_S)
    yield from _accuracy([row for row in summarise(jobs, "platform") if row.name != "all"])
    yield _by_placement(store, jobs)
    yield labelled(
        GaugeMetricFamily,
        "berth_learnt_jobs",
        f"Of the newest {MOST:,} ended jobs of {OUTCOME_DAYS:g} days, by what they count for: "
        "used, censored (killed by their time limit), or why they count for nothing.",
        ("use",),
        (
            ((use,), count)
            for use, count in store.learning.counted(now_s - OUTCOME_DAYS * _DAY_S, MOST)
        ),
    )
    changes = changes_since(store, now_s - CHANGE_DAYS * _DAY_S)
    yield GaugeMetricFamily(
        "berth_changes_noticed",
        f"Programs and platforms that were found to have changed in {CHANGE_DAYS:g} days, by the "
        f"newest {MOST_SHOWN:,} ended jobs.",
        value=float(len(changes.sentences)),
    )


def _by_placement(store: Store, jobs: Sequence[RunSums]) -> Metric:
    """Return the number of decided jobs by whether Berth placed them, and by how they ended."""
    decided = [job for job in jobs if job.decision is not None]
    placed = store.decisions.changed({job.decision for job in decided if job.decision})
    counts = Counter(("yes" if job.decision in placed else "no", job.state) for job in decided)
    return labelled(
        GaugeMetricFamily,
        "berth_decided_jobs",
        f"Decided jobs that ended in the last {OUTCOME_DAYS:g} days, of the newest {MOST:,}, by "
        "whether Berth changed them and by how they ended.",
        ("placed", "state"),
        sorted(counts.items()),
    )


def _accuracy(rows: list[Accuracy]) -> Iterator[Metric]:
    ended = f"Decided jobs that ended in the last {OUTCOME_DAYS:g} days, of the newest {MOST:,}."
    for name, text, value in (
        ("berth_ended_jobs", ended, attrgetter("jobs")),
        ("berth_compared_jobs", "Of them with a predicted and a real time.",
         attrgetter("compared")),
        ("berth_time_error_median_ratio", "Median of abs(real / predicted time - 1).",
         attrgetter("median_error")),
        ("berth_time_error_p90_ratio", "90th percentile of abs(real / predicted time - 1).",
         attrgetter("p90_error")),
        ("berth_time_bias_ratio", "Median of real / predicted time.", attrgetter("bias")),
        ("berth_interval_coverage_ratio", "Share of real times inside the 90 % interval.",
         attrgetter("coverage")),
    ):  # fmt: skip
        of_rows = [((row.name,), value(row)) for row in rows]
        yield labelled(GaugeMetricFamily, name, text, ("platform",), of_rows)
