"""The cluster that a site file describes, in the form that a replay simulates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from berth.pilot.errors import UsageError
from berth.plugin.site.site import Site
from berth.policies.replay.cluster import (
    Cluster,
    NodeKind,
    Partition,
    SlicedGpus,
    part_of,
    slices_of,
    whole,
)
from berth.policies.replay.trace import Trace
from berth.policies.values import Candidate
from berth.predictor.hardware.mig.slices import slice_of

MOST_NAMED = 5
"""Maximum number of partitions that a message lists by name."""


@dataclass(frozen=True)
class SiteCluster:
    """A cluster, with the partition that belongs to each candidate."""

    cluster: Cluster
    partition_of: Mapping[str, int]
    """Index of each candidate's partition, by the candidate's name."""
    site: Site | None = None
    candidates: tuple[Candidate, ...] = ()
    """The candidates of the site file, or those of the changed cluster."""


def cluster_of(site: Site) -> SiteCluster:
    """Return the cluster that a site file describes.

    Each candidate becomes a kind of nodes, and each of their queues a partition. A queue with
    several candidates also gets one partition per candidate, named after the candidate. MIG slices
    of one GPU model share the same physical GPUs, each of which starts as one undivided slice.
    Raises UsageError.
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
    sliced = _sliced(site)
    parts, of = [], {}
    for queue, candidates in by_queue.items():
        parts.append(Partition(queue, tuple(c.name for c in candidates), _longest(candidates)))
        of.update({c.name: len(parts) - 1 for c in candidates} if len(candidates) == 1 else {})
    for queue, candidates in by_queue.items():
        for candidate in candidates if len(candidates) > 1 else ():
            name = candidate.name if candidate.name not in by_queue else f"{queue}/{candidate.name}"
            of[candidate.name] = len(parts)
            parts.append(Partition(name, (candidate.name,), candidate.max_time_s, kind_of=queue))
    kinds = [_kind(candidate, sliced) for candidate in site.candidates]
    cluster = Cluster(
        tuple(kinds),
        tuple(parts),
        carbon_g_per_kwh=site.carbon_g_per_kwh,
        sliced=tuple(dict.fromkeys(sliced.values())),
    )
    return SiteCluster(cluster, of, site, site.candidates)


def on_cluster(site_cluster: SiteCluster, cluster: Cluster) -> SiteCluster:
    """Return the same site on a changed cluster, with candidates derived from that cluster."""
    known = {kind.name: kind for kind in cluster.kinds}
    there = {kind.name for kind in site_cluster.cluster.kinds}
    partitions = cluster.partitions
    candidates = [
        _as_kind(c, known[c.name], partitions[site_cluster.partition_of[c.name]])
        for c in site_cluster.candidates
    ]
    at = dict(site_cluster.partition_of)
    by_name = {candidate.name: candidate for candidate in site_cluster.candidates}
    for gpus in cluster.sliced:
        base = by_name.get(gpus.name.removesuffix("-mig"))
        for profile in gpus.profiles if base is not None else ():
            kind = known[gpus.kind(profile)]
            if base is not None and kind.name not in there:
                candidates.append(_slice(base, gpus, profile, kind))
                at[kind.name] = cluster.partition(kind.name)
    return replace(site_cluster, cluster=cluster, candidates=tuple(candidates), partition_of=at)


def _as_kind(candidate: Candidate, kind: NodeKind, queue: Partition) -> Candidate:
    if candidate.slice_of is not None:
        return candidate
    return replace(
        candidate,
        nodes=kind.count,
        cores_per_node=kind.cores,
        gpus_per_node=kind.gpus,
        memory_bytes_per_node=kind.memory_bytes or candidate.memory_bytes_per_node,
        max_time_s=queue.max_time_s,
    )


def _slice(base: Candidate, gpus: SlicedGpus, profile: str, kind: NodeKind) -> Candidate:
    """Return a candidate for MIG slices that the site file does not list."""
    return replace(
        base,
        name=kind.name,
        platform=kind.platform,
        queue=kind.name,
        gres=f"gpu:{profile}",
        gpus_per_node=gpus.geometry.profile(profile).max_instances,
        gpu_memory_bytes=gpus.geometry.profile(profile).memory_bytes,
        slice_of=base.platform,
        slice_part=part_of(gpus, profile),
        nodes=gpus.count,
        price_per_gpu_hour=kind.price_per_gpu_hour,
        power_per_gpu_w=kind.power_per_gpu_w,
    )


def _sliced(site: Site) -> dict[str, SlicedGpus]:
    """Return, by candidate name, the shared physical GPUs of candidates from a site file's slice
    table."""
    tables: dict[tuple[str, str, int], list[tuple[Candidate, str]]] = {}
    geometries = {}
    for candidate in site.candidates:
        if candidate.slice_of is None:
            continue
        slice_there = slice_of(site.platforms[candidate.platform])
        suffix = "" if slice_there is None else f"-{slice_there[1].name}"
        if slice_there is None or not candidate.name.endswith(suffix):
            continue  # listed individually: has nodes of its own with a fixed layout
        geometry, profile = slice_there
        key = (candidate.name.removesuffix(suffix), candidate.slice_of, candidate.nodes or 0)
        tables.setdefault(key, []).append((candidate, profile.name))
        geometries[key] = geometry
    sliced: dict[str, SlicedGpus] = {}
    for key, members in tables.items():
        geometry = geometries[key]
        first, profile_name = members[0]
        each = first.gpus_per_node // geometry.profile(profile_name).max_instances
        names = tuple(name for _, name in members)
        largest = whole(geometry)
        if largest.instances[0].profile not in names:
            biggest = geometry.profile(names[-1])
            largest = type(largest).of((biggest.name, biggest.placements[0]))
        gpus = SlicedGpus(key[0], geometry, key[2] * each, largest, names)
        sliced.update({candidate.name: gpus for candidate, _ in members})
    return sliced


def _kind(candidate: Candidate, sliced: Mapping[str, SlicedGpus]) -> NodeKind:
    kind = NodeKind(
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
    )
    gpus = sliced.get(candidate.name)
    if gpus is None:
        return kind
    mine = next(offered for offered in slices_of(gpus, kind) if offered.name == candidate.name)
    return replace(
        mine,
        platform=candidate.platform,
        power_per_gpu_w=candidate.power_per_gpu_w,
        price_per_gpu_hour=candidate.price_per_gpu_hour,
    )


def _longest(candidates: Sequence[Candidate]) -> float | None:
    limits: Iterable[float | None] = [candidate.max_time_s for candidate in candidates]
    return None if None in limits else max(limit for limit in limits if limit is not None)


def lacking_partitions(trace: Trace, present: Collection[str]) -> dict[int, int]:
    """Return the number of jobs in each partition of the trace that is not in ``present``, by its
    index."""
    asked = Counter(trace.queue.tolist())
    return {
        number: asked[number]
        for number, name in enumerate(trace.queues)
        if name not in present and asked[number]
    }


def with_jobs(trace: Trace, asked: Mapping[int, int]) -> str:
    """Return the partitions' names with their numbers of jobs as text; at most ``MOST_NAMED`` are
    named."""
    names = [f"{trace.queues[at] or 'none'} ({count} jobs)" for at, count in asked.items()]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"
