"""A trace placed by the site's own policy code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from berth.plugin.replay.clusters import SiteCluster
from berth.policies.replay import Metrics, Settings, Trace, metrics, replay
from berth.policies.replay.deciding import Decided
from berth.policies.replay.metrics import Range
from berth.policies.replay.predicted import with_error
from berth.policies.settings import PolicySettings


def placed(
    trace: Trace, place: SiteCluster, settings: Settings, policy: PolicySettings,
    *, log_error: float, seed: int,
) -> Metrics:  # fmt: skip
    """Figures of a replay in which every job asked Berth to choose."""
    candidates = () if place.site is None else place.site.candidates
    policy = replace(policy, list_queues=True)
    predictions = with_error(trace, candidates, log_error=log_error, seed=seed)
    decided = Decided(
        candidates, place.partition_of, policy, predictions, trace=trace, cluster=place.cluster
    )  # fmt: skip
    return metrics(replay(trace, place.cluster, settings, decided))


def over_seeds(drawn: Sequence[Metrics]) -> Metrics:
    """The mean of each figure; where there are several, the range over them is its interval."""
    if len(drawn) == 1:
        return drawn[0]
    means: dict[str, float] = {}
    ranges: dict[str, Range] = {}
    for one in fields(Metrics):
        values = [getattr(found, one.name) for found in drawn]
        if all(isinstance(value, float) for value in values):
            means[one.name] = sum(values) / len(values)
            ranges[one.name] = Range(min(values), max(values))
    return replace(drawn[0], **means, intervals=ranges)  # type: ignore[arg-type]
