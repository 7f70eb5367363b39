"""The cluster that a site file describes, as a replay works with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.plugin.site.site import Site
from berth.policies.replay.cluster import Cluster, NodeKind, Partition
from berth.policies.values import Candidate


@dataclass(frozen=True)
class SiteCluster:
    """The cluster, and which partition of it each candidate is."""

    cluster: Cluster
    partition_of: Mapping[str, int]
    """By candidate's name."""
    site: Site | None = None


def cluster_of(site: Site, *, pooled: bool = False) -> SiteCluster:
    """Kinds of nodes are candidates, partitions their queues; a queue over several kinds has a
    partition for each of them, too, named after the candidate. Raises UsageError.
    """
    by_queue: dict[str, list[Candidate]] = {}
    for candidate in site.candidates:
        if candidate.nodes is None:
            raise UsageError(
                f"{site.source}: candidate {candidate.name} does not say how many nodes there are",
                hint="write nodes = N in its table",
            )
        by_queue.setdefault(candidate.queue, []).append(candidate)
    if not by_queue:
        raise UsageError(f"{site.source} has no candidates to replay jobs on")
    parts, of = [], {}
    for queue, here in by_queue.items():
        parts.append(Partition(queue, tuple(c.name for c in here), _longest(here)))
        of.update({c.name: len(parts) - 1 for c in here} if len(here) == 1 else {})
    for queue, here in by_queue.items():
        for candidate in here if len(here) > 1 else ():
            name = candidate.name if candidate.name not in by_queue else f"{queue}/{candidate.name}"
            of[candidate.name] = len(parts)
            parts.append(Partition(name, (candidate.name,), candidate.max_time_s))
    cluster = Cluster(
        tuple(_kind(candidate) for candidate in site.candidates),
        tuple(parts),
        carbon=next((c.carbon for c in site.candidates if c.carbon is not None), None),
    )
    return SiteCluster(_pooled(cluster) if pooled else cluster, of, site)


def _kind(candidate: Candidate) -> NodeKind:
    return NodeKind(
        name=candidate.name,
        count=candidate.nodes or 0,
        cores=candidate.cores_per_node,
        gpus=candidate.gpus_per_node,
        memory_bytes=candidate.memory_bytes_per_node or 0,
        platform=candidate.platform,
        power_per_core_w=candidate.power_per_core_w,
        power_per_gpu_w=candidate.power_per_gpu_w,
        price_per_core_hour=candidate.price_per_core_hour,
        price_per_gpu_hour=candidate.price_per_gpu_hour,
        price_per_node_hour=candidate.price_per_node_hour,
    )


def _longest(here: list[Candidate]) -> float | None:
    limits = [candidate.max_time_s for candidate in here]
    return None if None in limits else max(limit for limit in limits if limit is not None)


def _pooled(cluster: Cluster) -> Cluster:
    return Cluster(cluster.kinds, cluster.partitions, pooled=True, carbon=cluster.carbon)
