"""Reads a Slurm cluster by its commands."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.slurm import commands
from berth.plugin.slurm.memory_defaults import MemoryDefaults
from berth.plugin.slurm.records import (
    Record,
    allowed,
    count,
    duration_s,
    gres,
    names,
    records,
    whole,
)
from berth.plugin.slurm.states import closed_as, waits_for_room
from berth.policies.values import QueueBounds

_MIB = 2**20
UNUSABLE = re.compile(
    r"\*|\b(?:DOWN|DRAIN(?:ED|ING)?|FAIL(?:ING)?|ERROR|UNKNOWN|FUTURE|INVAL(?:ID)?(?:_REG)?|"
    r"NOT_RESPONDING|NO_RESPOND|MAINT(?:ENANCE)?|REBOOT(?:_ISSUED|_REQUESTED)?|BLOCKED|"
    r"POWERING_DOWN)\b"
)
"""Words of a node's state that keep jobs off it; ``*``: it does not answer."""


def read_cluster(*, timeout_s: float = commands.DEFAULT_TIMEOUT_S) -> ClusterFacts:
    """Queues and nodes as they are now. Raises SchedulerError or ToolMissing."""
    now_s = time.time()
    partitions = commands.run(("scontrol", "-a", "-o", "show", "partition"), timeout_s=timeout_s)
    nodes = commands.run(("scontrol", "-a", "-d", "-o", "show", "node"), timeout_s=timeout_s)
    asked = ("squeue", "-a", "-h", "-t", "PENDING", "-o", "%P|%r")
    waiting = commands.run(asked, timeout_s=timeout_s)
    version = commands.run(("sinfo", "-V"), timeout_s=timeout_s)
    config = commands.run(("scontrol", "show", "config"), timeout_s=timeout_s)
    return parse_cluster(partitions, nodes, waiting, version, config, as_of_s=now_s)


def parse_cluster(
    partitions: str, nodes: str, waiting: str, version: str, config: str = "", *, as_of_s: float
) -> ClusterFacts:
    """From the commands' texts. Raises SchedulerError where they are not what Slurm writes.

    Jobs that are held, or wait for others or for a date, wait before nobody.
    """
    lines = (line.partition("|") for line in waiting.splitlines())
    pending = Counter(
        name for names, _, reason in lines if waits_for_room(reason) for name in names.split(",")
    )
    found = tuple(_node(r) for r in records(nodes, "NodeName"))
    defaults = MemoryDefaults.of(config, found)
    queues = [_queue(r, pending, defaults, found) for r in records(partitions, "PartitionName")]
    if not queues:
        raise SchedulerError("Slurm has no partitions that this user may see")
    if not found:
        raise SchedulerError("Slurm has no nodes that this user may see")
    return ClusterFacts(
        name="slurm",
        version=version.strip()[:64],
        as_of_s=as_of_s,
        queues={q.name: q for q in queues},
        nodes=found,
    )


def _queue(
    record: Record,
    pending: Mapping[str, int],
    defaults: MemoryDefaults,
    nodes: Sequence[NodeFacts],
) -> QueueFacts:
    name, closed = record["PartitionName"], closed_as(record.get("State", "UP"))
    nodes = [node for node in nodes if name in node.queues]
    bounds = defaults.limited(record, _bounds(record), nodes)
    return QueueFacts(
        name=name,
        up=closed is None,
        closed=closed,
        is_default=record.get("Default") == "YES",
        max_time_s=duration_s(record.get("MaxTime")),
        default_time_s=duration_s(record.get("DefaultTime")),
        allowed_accounts=allowed(record, "AllowAccounts"),
        allowed_qos=allowed(record, "AllowQos"),
        pending_jobs=pending.get(name, 0),
        bounds=bounds,
        default_memory=defaults.of_queue(record, bounds, nodes),
        qos=(names(record, "QoS") or (None,))[0],
        not_for_users=not_for_users(
            hidden=record.get("Hidden") == "YES", root_only=record.get("RootOnly") == "YES"
        ),
    )


def not_for_users(*, hidden: bool, root_only: bool) -> str | None:
    """Why a partition is not offered to users; None: it is."""
    if root_only:
        return "RootOnly=YES"
    return "Hidden=YES" if hidden else None


def _bounds(record: Record) -> QueueBounds:
    """Limits of a partition; Slurm writes UNLIMITED, or nothing, where there is none."""

    def most(key: str) -> int | None:
        return count(record.get(key, ""))

    def memory(key: str) -> int | None:
        mib = most(key)
        return None if not mib else mib * _MIB

    return QueueBounds(
        min_nodes=whole(record, "MinNodes"),
        max_nodes=most("MaxNodes"),
        max_cores_per_node=most("MaxCPUsPerNode"),
        max_memory_bytes_per_node=memory("MaxMemPerNode"),
        max_memory_bytes_per_core=memory("MaxMemPerCPU"),
        default_memory_bytes_per_node=memory("DefMemPerNode"),
        default_memory_bytes_per_core=memory("DefMemPerCPU"),
        max_time_s=duration_s(record.get("MaxTime")),
        default_time_s=duration_s(record.get("DefaultTime")),
        exclusive=record.get("OverSubscribe", "").startswith("EXCLUSIVE"),
        weighted="TRESBillingWeights" in record,
    )


def _node(record: Record) -> NodeFacts:
    cpus = whole(record, "CPUTot", 1)
    cores = max(1, whole(record, "Sockets") * whole(record, "CoresPerSocket") or cpus)
    # Slurm counts hardware threads, or cores where the site says CPUs = cores.
    cpus_per_core = max(1, cpus // cores)
    idle_cpus = (whole(record, "CPUEfctv") or cpus) - whole(record, "CPUAlloc")
    total = gres(record.get("Gres"))
    used = gres(record.get("GresUsed"))
    return NodeFacts(
        name=record["NodeName"],
        queues=names(record, "Partitions"),
        usable=UNUSABLE.search(record.get("State", "UNKNOWN")) is None,
        cores=cores,
        idle_cores=max(0, min(cores, idle_cpus // cpus_per_core)),
        memory_bytes=whole(record, "RealMemory") * _MIB,
        architecture=record.get("Arch") or "x86_64",
        features=names(record, "ActiveFeatures") or names(record, "AvailableFeatures"),
        gpus=total,
        idle_gpus={name: max(0, count - used.get(name, 0)) for name, count in total.items()},
        system=system_of(record.get("OS")),
        used_memory_bytes=whole(record, "AllocMem") * _MIB,
        cpus_per_core=cpus_per_core,
    )


def system_of(text: str | None) -> str | None:
    """``Linux 6.1.0-18-amd64`` from that and the build's date; None where it is not given."""
    words = (text or "").split()
    return " ".join(words[:2]) if len(words) >= 2 else None
