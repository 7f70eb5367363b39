"""Metrics of the running daemon, from its reply to ``stats``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

_MICRO = 1e-6
_RECORDED = ("stored", "spooled", "dropped")
_INFO = (
    ("version", "berth_build_info", "Version of the running daemon."),
    ("mode", "berth_mode_info", "What the site file has the daemon do."),
)
_GAUGES = (
    ("uptime_s", "berth_daemon_uptime_seconds", "Since the daemon started."),
    ("candidates", "berth_candidates", "Places of the site file."),
    ("workloads", "berth_workloads", "Workloads that jobs can name."),
    ("forecasts", "berth_forecasts", "Forecasts that decisions are made from."),
    ("learnt", "berth_learnt_forecasts", "Of them moved by finished jobs."),
)
_COUNTERS = (
    ("refused", "berth_refused_messages", "Messages that were no question of the protocol."),
    ("internal-errors", "berth_internal_errors", "Questions that failed; their jobs stay."),
)
_BREAKERS = (
    (CounterMetricFamily, "openings", "berth_filter_breaker_openings",
     "How often the submit filter's circuit breaker opened."),
    (CounterMetricFamily, "undecided", "berth_filter_breaker_undecided_submissions",
     "Submissions that went on unchanged because the daemon gave no answer in time."),
    (GaugeMetricFamily, "reported_s", "berth_filter_breaker_last_report_timestamp_seconds",
     "When the filter last reported such submissions, at its next answer."),
    (GaugeMetricFamily, "lasted_s", "berth_filter_breaker_last_outage_seconds",
     "From the first of them to that report."),
)  # fmt: skip
_PLACES = (
    ("up", "berth_place_up", "0: the place takes no jobs."),
    ("idle_cores", "berth_place_idle_cores", "Cores without a job."),
    ("idle_gpus", "berth_place_idle_gpus", "GPUs, or slices, without a job."),
    ("pending_jobs", "berth_place_pending_jobs", "Jobs that wait in its queue."),
)
_SLICES = (
    ("idle_gpus", "berth_mig_slices_idle", "MIG slices without a job."),
    ("pending_jobs", "berth_mig_jobs_pending", "Jobs that wait for slices."),
)
Rows = Iterable[tuple[Sequence[str], float | None]]
"""Pairs of label values and a value; a value of None is left out."""


def daemon_metrics(status: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield all metrics. Raises KeyError, TypeError or ValueError for the reply of another
    version."""
    for key, name, text in _INFO:
        yield labelled(GaugeMetricFamily, name, text, (key,), [((status[key],), 1.0)])
    for key, name, text in _GAUGES:
        if status[key] is not None:
            yield GaugeMetricFamily(name, text, value=float(status[key]))
    age_s = status["state_age_s"]
    yield GaugeMetricFamily(
        "berth_state_age_seconds",
        "Since the cluster was read; since the daemon started, where it never was.",
        value=float(status["uptime_s"] if age_s is None else age_s),
    )
    for key, name, text in _COUNTERS:
        yield CounterMetricFamily(name, text, value=float(status["counts"].get(key, 0)))
    yield labelled(
        CounterMetricFamily,
        "berth_decisions",
        "Answers to the submit filter; action keep: the job was left alone, for that reason.",
        ("mode", "action", "reason"),
        ((labels, count) for *labels, count in status["decisions"]),
    )
    yield _durations(status["latency_buckets_us"])
    yield labelled(
        CounterMetricFamily,
        "berth_connections",
        "Connections to the scheduler's socket.",
        ("result",),
        (((result,), count) for result, count in sorted(status["connections"].items())),
    )
    yield from _recorder(status["recorder"])
    breakers = sorted(status["breakers"].items())
    for kind, key, name, text in _BREAKERS:
        rows = [((scheduler,), breaker[key]) for scheduler, breaker in breakers]
        yield labelled(kind, name, text, ("scheduler",), rows)
    problems = [((part,), 1.0) for part in sorted(status["problems"])]
    text = "1: this part of the daemon has a problem."
    yield labelled(GaugeMetricFamily, "berth_background_problem", text, ("part",), problems)
    places = sorted(status["places"].items())
    slices = [(name, place) for name, place in places if place["slices"]]
    for table, named_places in ((_PLACES, places), (_SLICES, slices)):
        for key, name, text in table:
            values = [((of, place["platform"]), place[key]) for of, place in named_places]
            yield labelled(GaugeMetricFamily, name, text, ("place", "platform"), values)


def labelled(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    labels: Sequence[str],
    rows: Rows,
) -> Metric:
    """Return a metric with a value for each row."""
    family = kind(name, text, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, float(value))
    return family


def _durations(took: Mapping[str, Any]) -> Metric:
    buckets, below = [], 0
    for bound, count in zip(took["bounds"], took["counts"], strict=False):
        below += count
        buckets.append((f"{bound * _MICRO:g}", float(below)))
    buckets.append(("+Inf", float(sum(took["counts"]))))
    return HistogramMetricFamily(
        "berth_decision_duration_seconds",
        "Time to an answer, within the daemon.",
        buckets=buckets,
        sum_value=took["sum"] * _MICRO,
    )


def _recorder(recorder: Mapping[str, Any]) -> Iterator[Metric]:
    text = "Decided and not yet in the store."
    yield GaugeMetricFamily("berth_unwritten_decisions", text, value=float(recorder["queued"]))
    yield labelled(
        CounterMetricFamily,
        "berth_recorded_decisions",
        "By where they went; dropped: lost.",
        ("to",),
        (((where,), recorder[where]) for where in _RECORDED),
    )
    text, works = "0: the store takes no decisions.", recorder["problem"] is None
    yield GaugeMetricFamily("berth_store_writable", text, value=float(works))
