"""Metrics of what the store holds: how predictions held, what was learnt. No users' names."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from berth.plugin.outcomes.accuracy import MOST, Accuracy, newest_jobs, summarise
from berth.plugin.store import Store

_DAY_S = 86_400.0
OUTCOME_DAYS = 30.0
CHANGE_DAYS = 7.0


def store_metrics(store: Store) -> Iterator[Metric]:
    """Raises StoreError where it cannot be read."""
    from berth.plugin.learning.shown import MOST_SHOWN, changes_since  # noqa: PLC0415 - numpy

    now_s = time.time()
    found, _ = newest_jobs(store, now_s - OUTCOME_DAYS * _DAY_S, now_s + _DAY_S)
    yield from _accuracy([row for row in summarise(found, "platform") if row.name != "all"])
    learnt = GaugeMetricFamily(
        "berth_learnt_jobs",
        f"Of the newest {MOST:,} ended jobs of {OUTCOME_DAYS:g} days, by what they count for: "
        "used, censored (killed by their time limit), or why they count for nothing.",
        labels=["use"],
    )
    for use, count in store.learning.counted(now_s - OUTCOME_DAYS * _DAY_S, MOST):
        learnt.add_metric([use], count)
    yield learnt
    changes = changes_since(store, now_s - CHANGE_DAYS * _DAY_S)
    yield GaugeMetricFamily(
        "berth_changes_noticed",
        f"Programs and platforms that were found to have changed in {CHANGE_DAYS:g} days, by the "
        f"newest {MOST_SHOWN:,} ended jobs.",
        value=float(len(changes.sentences)),
    )


def _accuracy(rows: list[Accuracy]) -> Iterator[Metric]:
    ended = GaugeMetricFamily(
        "berth_ended_jobs",
        f"Decided jobs that ended in the last {OUTCOME_DAYS:g} days, of the newest {MOST:,}.",
        labels=["platform"],
    )
    compared = GaugeMetricFamily(
        "berth_compared_jobs", "Of them with a predicted and a real time.", labels=["platform"]
    )
    error = GaugeMetricFamily(
        "berth_time_error_ratio",
        "Quantiles of abs(real / predicted time - 1).",
        labels=["platform", "quantile"],
    )
    bias = GaugeMetricFamily(
        "berth_time_bias_ratio", "Median of real / predicted time.", labels=["platform"]
    )
    coverage = GaugeMetricFamily(
        "berth_interval_coverage_ratio",
        "Share of real times inside the 90 % interval.",
        labels=["platform"],
    )
    for row in rows:
        ended.add_metric([row.name], row.jobs)
        compared.add_metric([row.name], row.compared)
        for quantile, value in (("0.5", row.median_error), ("0.9", row.p90_error)):
            if value is not None:
                error.add_metric([row.name, quantile], value)
        if row.bias is not None:
            bias.add_metric([row.name], row.bias)
        if row.coverage is not None:
            coverage.add_metric([row.name], row.coverage)
    yield from (ended, compared, error, bias, coverage)
