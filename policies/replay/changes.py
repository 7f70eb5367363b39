"""What if the cluster were another one: ``nodes.gpu.count=+4``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from berth.pilot.errors import UsageError
from berth.policies.replay.cluster import Cluster

_FIELDS = {"count": "count", "cores": "cores", "gpus": "gpus", "memory": "memory_bytes"}
_HOW = (
    "write nodes.KIND.count=40 or =+4 (also cores, gpus, memory), or queues.NAME.max_time=SECONDS"
)


def changed(cluster: Cluster, changes: Sequence[str]) -> Cluster:
    """The cluster with each of ``changes``, in order. Raises UsageError."""
    for text in changes:
        where, mark, value = text.partition("=")
        parts = where.strip().split(".")
        if not mark or len(parts) < 3:
            raise UsageError(f"{text!r} changes nothing", hint=_HOW)
        table, name, key = parts[0], ".".join(parts[1:-1]), parts[-1]
        if table == "nodes" and key in _FIELDS:
            cluster = _of_nodes(cluster, name, _FIELDS[key], value, text)
        elif table == "queues" and key == "max_time":
            cluster = _of_queue(cluster, name, value, text)
        else:
            raise UsageError(f"{text!r}: there is no {where.strip()!r} to set", hint=_HOW)
    return cluster


def _of_nodes(cluster: Cluster, name: str, key: str, value: str, text: str) -> Cluster:
    kind = cluster.kind(name)
    number = _number(value, float(getattr(kind, key)), text)
    if number != int(number):
        raise UsageError(f"{text!r}: {number:g} is no whole number")
    made = replace(kind, **{key: int(number)})  # type: ignore[arg-type]
    return replace(cluster, kinds=tuple(made if one is kind else one for one in cluster.kinds))


def _of_queue(cluster: Cluster, name: str, value: str, text: str) -> Cluster:
    place = cluster.partition(name)
    part = cluster.partitions[place]
    number = _number(value, part.max_time_s or 0.0, text)
    parts = list(cluster.partitions)
    parts[place] = replace(part, max_time_s=number)
    return replace(cluster, partitions=tuple(parts))


def _number(value: str, before: float, text: str) -> float:
    """``40``, or ``+4``, ``-4`` and ``*2`` of what is there."""
    value = value.strip()
    try:
        if value[:1] in {"+", "-"}:
            found = before + float(value)
        elif value[:1] == "*":
            found = before * float(value[1:])
        else:
            found = float(value)
    except ValueError:
        raise UsageError(f"{text!r}: {value!r} is no number", hint=_HOW) from None
    if not (math.isfinite(found) and 0 <= found < 2**53):
        raise UsageError(f"{text!r}: gives {found:g}, which cannot be")
    return found
