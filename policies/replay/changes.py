"""Changes of the replayed cluster, written as text such as ``nodes.gpu.count=+4``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from berth.pilot.errors import UsageError
from berth.pilot.units import parse_bytes, parse_duration_s, whole_number
from berth.policies.mig.layout import Layout
from berth.policies.replay.cluster import Cluster, Partition, SlicedGpus, plain, slices_of, whole
from berth.predictor.hardware.mig.slices import lookup

_FIELDS = {"count": "count", "cores": "cores", "gpus": "gpus", "memory": "memory_bytes"}
_QUEUES = ("queues", "partitions")
_HOW = (
    "write nodes.KIND.count=40 or =+4 (also cores, gpus, memory, and mig: nodes that are cut), "
    "nodes.KIND.layout=LAYOUT, or partitions.NAME.max_time=12h (also nodes)"
)
_NODES = re.compile(r"(?P<kind>[^\[\]]+)\[(?P<list>[\d,\s-]+)\]")


def changed(cluster: Cluster, changes: Sequence[str]) -> Cluster:
    """Return the cluster with the changes applied in order. Raises UsageError for an invalid
    change."""
    for text in changes:
        where, mark, value = text.partition("=")
        parts = where.strip().split(".")
        if not mark or len(parts) < 3:
            raise UsageError(f"{text!r} changes nothing", hint=_HOW)
        # Names of slices contain dots: a100-mig-1g.5gb.
        table, name, key = parts[0], ".".join(parts[1:-1]), parts[-1]
        if table == "nodes" and key in _FIELDS:
            cluster = _of_nodes(cluster, name, _FIELDS[key], value, text)
        elif table == "nodes" and key == "mig":
            cluster = _cut(cluster, name, value, text)
        elif table == "nodes" and key == "layout":
            cluster = _of_layout(cluster, name, value)
        elif table in _QUEUES and key == "nodes":
            cluster = _over(cluster, name, value, text)
        elif table in _QUEUES and key == "max_time":
            cluster = _of_queue(cluster, name, value, text)
        else:
            raise UsageError(f"{text!r}: there is no {where.strip()!r} to set", hint=_HOW)
    return cluster


def nodes_in(cluster: Cluster, text: str) -> tuple[str, tuple[int, ...]]:
    """Return ``(kind, nodes)`` for text such as ``KIND[0-3,7]``; plain ``KIND`` means all its
    nodes.

    Raises UsageError.
    """
    match = _NODES.fullmatch(text.strip())
    if match is None:
        kind = cluster.kind(text.strip())
        return kind.name, tuple(range(kind.count))
    kind = cluster.kind(match["kind"].strip())
    nodes: list[int] = []
    for span in match["list"].split(","):
        first, dash, last = span.strip().partition("-")
        start, end = whole_number(first), whole_number(last if dash else first)
        if start is None or end is None:
            raise UsageError(
                f"{text[:60]!r} names no nodes", hint="write KIND[0-3,7], counted from 0"
            )
        if end >= kind.count:
            raise UsageError(f"{text!r}: kind {kind.name} has {kind.count} nodes, from 0")
        nodes += range(start, end + 1)
    return kind.name, tuple(dict.fromkeys(nodes))


def _of_nodes(cluster: Cluster, name: str, key: str, value: str, text: str) -> Cluster:
    kind = cluster.kind(name)
    if name in cluster.slice_kinds:
        raise UsageError(f"{text!r}: {name} are slices", hint="change nodes.KIND.layout, or mig")
    number = _number(value, float(getattr(kind, key)), text, key)
    if number != int(number):
        raise UsageError(f"{text!r}: {number:g} is no whole number")
    changed_kind = replace(kind, **{key: int(number)})  # type: ignore[arg-type]
    return replace(
        cluster, kinds=tuple(changed_kind if each is kind else each for each in cluster.kinds)
    )


def _cut(cluster: Cluster, name: str, value: str, text: str) -> Cluster:
    kind = cluster.kind(name)
    nodes = _number(value, 0.0, text, "count")
    if nodes != int(nodes) or nodes > kind.count:
        raise UsageError(f"{text!r}: kind {name} has {kind.count} nodes")
    if not kind.gpus:
        raise UsageError(f"{text!r}: kind {name} has no GPUs to cut")
    geometry = lookup(kind.platform or kind.name)
    gpus = SlicedGpus(
        f"{name}-mig", geometry, int(nodes) * kind.gpus, whole(geometry),
        tuple(p.name for p in plain(geometry)),
    )  # fmt: skip
    if not gpus.count:
        return cluster
    left = replace(kind, count=kind.count - int(nodes))
    slices = slices_of(gpus, kind)
    longest = _longest(cluster, name)
    return replace(
        cluster,
        kinds=(*(left if each is kind else each for each in cluster.kinds), *slices),
        partitions=(*cluster.partitions, *(Partition(s.name, (s.name,), longest) for s in slices)),
        sliced=(*cluster.sliced, gpus),
        pooled=False,
    )


def _of_layout(cluster: Cluster, name: str, value: str) -> Cluster:
    known = [gpus.name for gpus in cluster.sliced]
    if name not in known:
        raise UsageError(
            f"no GPUs {name!r} are cut", hint=f"there are: {', '.join(known) or 'none'}"
        )
    cut_so = next(
        replace(gpus, layout=Layout.parse(value)) for gpus in cluster.sliced if gpus.name == name
    )
    counts = {cut_so.kind(profile): cut_so.slices(profile) for profile in cut_so.profiles}
    return replace(
        cluster,
        sliced=tuple(cut_so if gpus.name == name else gpus for gpus in cluster.sliced),
        kinds=tuple(replace(k, count=counts.get(k.name, k.count)) for k in cluster.kinds),
    )


def _over(cluster: Cluster, name: str, value: str, text: str) -> Cluster:
    """Return the cluster with a partition, new or existing, over these nodes.

    Partitions may share nodes.
    """
    if "[" in value:
        kind, nodes = nodes_in(cluster, value)
        partition = Partition(name, (kind,), nodes=nodes)
    else:
        kinds = tuple(cluster.kind(word.strip()).name for word in value.split(","))
        if len(set(kinds)) != len(kinds):
            raise UsageError(f"{text!r} names a kind of nodes twice")
        partition = Partition(name, kinds)
    parts = [
        replace(part, kinds=partition.kinds, nodes=partition.nodes) if part.name == name else part
        for part in cluster.partitions
    ]
    if name not in {part.name for part in parts}:
        parts.append(partition)
    return replace(cluster, partitions=tuple(parts), pooled=False)


def _of_queue(cluster: Cluster, name: str, value: str, text: str) -> Cluster:
    place = cluster.partition(name)
    part = cluster.partitions[place]
    parts = list(cluster.partitions)
    longest_s = _number(value, part.max_time_s or 0.0, text, "max_time")
    parts[place] = replace(part, max_time_s=longest_s)
    return replace(cluster, partitions=tuple(parts))


def _longest(cluster: Cluster, kind: str) -> float | None:
    """Return the longest time limit of the partitions with this kind of nodes; None: one has no
    limit."""
    limits = [part.max_time_s for part in cluster.partitions if kind in part.kinds]
    return None if None in limits else max((x for x in limits if x is not None), default=None)


def _number(value: str, before: float, text: str, key: str) -> float:
    """Return the number in text such as ``40``, ``64G`` or ``12h``.

    ``+4``, ``-4`` and ``*2`` change the present value ``before``.
    """
    value = value.strip()
    sign = value[:1] if value[:1] in {"+", "-", "*"} else ""
    try:
        number = _amount(value[len(sign) :].strip(), key, scale=sign == "*")
    except (ValueError, UsageError):
        raise UsageError(f"{text!r}: {value!r} is no number", hint=_HOW) from None
    result = {"": number, "+": before + number, "-": before - number, "*": before * number}[sign]
    if not (math.isfinite(result) and 0 <= result < 2**53):
        raise UsageError(f"{text!r}: gives {result:g}, which cannot be")
    return result


def _amount(text: str, key: str, *, scale: bool) -> float:
    try:
        return float(text)
    except ValueError:
        if scale or key not in {"memory_bytes", "max_time"}:
            raise
    return float(parse_bytes(text)) if key == "memory_bytes" else parse_duration_s(text)
