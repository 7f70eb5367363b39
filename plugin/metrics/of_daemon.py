"""Metrics of the running daemon, from its answer to ``stats``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

_MICRO = 1e-6
_RECORDED = ("stored", "spooled", "dropped")


def daemon_metrics(status: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield all metrics. Raises KeyError, TypeError or ValueError for an answer of another
    version."""
    yield _info("berth_build", "Version of the running daemon.", version=status["version"])
    yield _info("berth_mode", "What the site file has the daemon do.", mode=status["mode"])
    yield _gauge("berth_daemon_uptime_seconds", "Since the daemon started.", status["uptime_s"])
    yield from _decisions(status)
    counts = status["counts"]
    for name, key, text in (
        ("berth_refused_messages", "refused", "Messages that were no question of the protocol."),
        ("berth_internal_errors", "internal-errors", "Questions that failed; their jobs stay."),
    ):
        yield _counter(name, text, counts.get(key, 0))
    connections = CounterMetricFamily(
        "berth_connections", "Connections to the scheduler's socket.", labels=["result"]
    )
    for result, count in sorted(status["connections"].items()):
        connections.add_metric([result], count)
    yield connections
    yield from _recorder(status["recorder"])
    yield from _breakers(status["breakers"])
    yield _gauge("berth_candidates", "Places of the site file.", status["candidates"])
    yield _gauge("berth_workloads", "Workloads that jobs can name.", status["workloads"])
    yield _gauge("berth_forecasts", "Forecasts that decisions are made from.", status["forecasts"])
    yield _gauge("berth_learnt_forecasts", "Of them moved by finished jobs.", status["learnt"])
    if status["state_age_s"] is not None:
        yield _gauge(
            "berth_state_age_seconds", "Since the cluster was read.", status["state_age_s"]
        )
    problems = GaugeMetricFamily(
        "berth_background_problem", "1: this part of the daemon has a problem.", labels=["part"]
    )
    for part in sorted(status["problems"]):
        problems.add_metric([part], 1)
    yield problems
    yield from _candidates(status["places"])


def _decisions(status: Mapping[str, Any]) -> Iterator[Metric]:
    decisions = CounterMetricFamily(
        "berth_decisions",
        "Answers to the submit filter; action keep: the job was left alone, for that reason.",
        labels=["mode", "action", "reason"],
    )
    for mode, action, code, count in status["decisions"]:
        decisions.add_metric([mode, action, code], count)
    yield decisions
    took = status["latency_buckets_us"]
    buckets, below = [], 0
    for bound, count in zip(took["bounds"], took["counts"], strict=False):
        below += count
        buckets.append((f"{bound * _MICRO:g}", float(below)))
    buckets.append(("+Inf", float(sum(took["counts"]))))
    yield HistogramMetricFamily(
        "berth_decision_duration_seconds",
        "Time to an answer, within the daemon.",
        buckets=buckets,
        sum_value=took["sum"] * _MICRO,
    )


def _recorder(recorder: Mapping[str, Any]) -> Iterator[Metric]:
    yield _gauge(
        "berth_unwritten_decisions", "Decided and not yet in the store.", recorder["queued"]
    )
    written = CounterMetricFamily(
        "berth_recorded_decisions", "By where they went; dropped: lost.", labels=["to"]
    )
    for where in _RECORDED:
        written.add_metric([where], recorder[where])
    yield written
    yield _gauge(
        "berth_store_writable", "0: the store takes no decisions.", recorder["problem"] is None
    )


def _breakers(breakers: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    """Yield what the submit filters reported of their circuit breakers."""
    for key, family in (
        ("openings", CounterMetricFamily(
            "berth_filter_breaker_openings",
            "How often the submit filter's circuit breaker opened.",
            labels=["scheduler"],
        )),
        ("undecided", CounterMetricFamily(
            "berth_filter_breaker_undecided_submissions",
            "Submissions that went on unchanged because the daemon gave no answer in time.",
            labels=["scheduler"],
        )),
        ("reported_s", GaugeMetricFamily(
            "berth_filter_breaker_last_report_timestamp_seconds",
            "When the filter last reported such submissions, at its next answer.",
            labels=["scheduler"],
        )),
        ("lasted_s", GaugeMetricFamily(
            "berth_filter_breaker_last_outage_seconds",
            "From the first of them to that report.",
            labels=["scheduler"],
        )),
    ):  # fmt: skip
        for scheduler, breaker in sorted(breakers.items()):
            if breaker[key] is not None:
                family.add_metric([scheduler], breaker[key])
        yield family


def _candidates(candidates: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    families = {
        key: GaugeMetricFamily(name, text, labels=["place", "platform"])
        for key, name, text in (
            ("up", "berth_place_up", "0: the place takes no jobs."),
            ("idle_cores", "berth_place_idle_cores", "Cores without a job."),
            ("idle_gpus", "berth_place_idle_gpus", "GPUs, or slices, without a job."),
            ("pending_jobs", "berth_place_pending_jobs", "Jobs that wait in its queue."),
        )
    }
    slices = GaugeMetricFamily(
        "berth_mig_slices_idle", "MIG slices without a job.", labels=["place", "platform"]
    )
    pending = GaugeMetricFamily(
        "berth_mig_jobs_pending", "Jobs that wait for slices.", labels=["place", "platform"]
    )
    for name, state in sorted(candidates.items()):
        labels = [name, state["platform"]]
        for key, family in families.items():
            family.add_metric(labels, float(state[key]))
        if state["slices"]:
            slices.add_metric(labels, float(state["idle_gpus"]))
            pending.add_metric(labels, float(state["pending_jobs"]))
    yield from families.values()
    yield slices
    yield pending


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=float(value))


def _info(name: str, text: str, **labels: str) -> Metric:
    family = GaugeMetricFamily(f"{name}_info", text, labels=list(labels))
    family.add_metric(list(labels.values()), 1.0)
    return family
