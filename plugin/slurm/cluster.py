"""Reads a Slurm cluster with Slurm's commands: partitions, nodes, memory defaults, reservations."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts, ReservationFacts
from berth.plugin.scheduler.host_lists import hostlist
from berth.plugin.slurm import commands
from berth.plugin.slurm.partitions import (
    billing_weights,
    gives_whole_nodes,
    jobs_per_core,
    keeps_others_away,
    with_preemption,
)
from berth.plugin.slurm.records import (
    Record,
    allowed,
    closed_as,
    count,
    duration_s,
    gres,
    moment_s,
    names,
    records,
    waits_for_room,
    whole,
)
from berth.policies.values import DefaultMemory, QueueBounds

_MIB = 2**20
_PING_S = 2.0


def why_silent() -> str | None:
    """Return why no slurmctld answers, by ``scontrol ping``; None: one does, or ping cannot tell.

    Slurm's other commands try for 10 to 20 seconds before they give up.
    """
    try:
        text = commands.run(("scontrol", "ping"), timeout_s=_PING_S, any_status=True)
    except ToolMissing:
        return None
    except SchedulerError as error:
        return error.message
    if "is DOWN" not in text or "is UP" in text:
        return None
    return "; ".join(line.strip() for line in text.splitlines() if "is DOWN" in line)


@dataclass(frozen=True, slots=True)
class MemoryDefaults:
    """Cluster-wide defaults from slurm.conf, in bytes and cores; None: unlimited, or not set."""

    bytes_per_gpu: int | None = None
    cores_per_gpu: int = 0
    """``DefCpuPerGPU`` of the cluster; 0: not set."""
    bytes_per_core: int | None = None
    bytes_per_node: int | None = None
    shared_out: bool = False
    """True where Slurm allocates memory as a resource (``SelectTypeParameters``)."""
    most_bytes_per_core: int | None = None
    """``MaxMemPerCPU``, used where a partition sets no memory limit of its own;
    ``most_bytes_per_node`` (``MaxMemPerNode``) likewise.
    """
    most_bytes_per_node: int | None = None
    whole_cores: bool = False
    """True where Slurm allocates whole cores: a job gets all hardware threads of a core and their
    memory.
    """
    fewest_threads: int = 1
    """The smallest number of hardware threads per core on any node of the cluster. Only partitions
    whose cores have more threads are treated differently.
    """

    @staticmethod
    def of(config: str, nodes: Sequence[NodeFacts] = ()) -> MemoryDefaults:
        """Return the defaults in the text of ``scontrol show config``; settings that are absent are
        not set.

        ``nodes``: all nodes of the cluster.
        """
        settings = commands.parse_configuration(config)
        selected = settings.get("SelectTypeParameters", "").upper()
        return MemoryDefaults(
            bytes_per_gpu=_job_default("DefMemPerGPU", settings) * _MIB or None,
            cores_per_gpu=_job_default("DefCpuPerGPU", settings),
            bytes_per_core=_mib(settings.get("DefMemPerCPU", "")),
            bytes_per_node=_mib(settings.get("DefMemPerNode", "")),
            shared_out="_MEMORY" in selected,
            most_bytes_per_core=_mib(settings.get("MaxMemPerCPU", "")),
            most_bytes_per_node=_mib(settings.get("MaxMemPerNode", "")),
            whole_cores="CR_CORE" in selected or "CR_SOCKET" in selected,
            fewest_threads=min((n.cpus_per_core for n in nodes), default=1),
        )

    def limited(
        self, partition: Record, bounds: QueueBounds, nodes: Sequence[NodeFacts]
    ) -> QueueBounds:
        """Return a partition's limits, with the cluster's memory limits and defaults where the
        partition sets none.

        ``nodes``: the partition's nodes, which give the threads per core.
        """
        threads = max((n.cpus_per_core for n in nodes), default=1)
        bounds = replace(
            bounds,
            cpus_per_core=threads,
            default_cores_per_gpu=_job_default("DefCpuPerGPU", partition) or self.cores_per_gpu,
        )
        if not (bounds.default_memory_bytes_per_core or bounds.default_memory_bytes_per_node):
            bounds = replace(
                bounds,
                default_memory_bytes_per_core=self.bytes_per_core,
                default_memory_bytes_per_node=self.bytes_per_node,
            )
        if bounds.max_memory_bytes_per_core or bounds.max_memory_bytes_per_node:
            return bounds
        return replace(
            bounds,
            max_memory_bytes_per_core=self.most_bytes_per_core,
            max_memory_bytes_per_node=self.most_bytes_per_node,
        )

    def of_queue(
        self, partition: Record, bounds: QueueBounds, nodes: Sequence[NodeFacts]
    ) -> DefaultMemory | None:
        """Return a partition's default memory on these nodes; None: Slurm does not allocate
        memory.
        """
        if not self.shared_out:
            return None
        return DefaultMemory(
            bytes_per_gpu=_job_default("DefMemPerGPU", partition) * _MIB or self.bytes_per_gpu,
            bytes_per_core=bounds.default_memory_bytes_per_core,
            bytes_per_node=bounds.default_memory_bytes_per_node,
            node_bytes=min((n.memory_bytes for n in nodes if n.memory_bytes), default=None),
            node_cores=min((n.cores * self._threads_that_count(n) for n in nodes), default=1),
            most_node_cores=max((n.cores * n.cpus_per_core for n in nodes), default=None),
            cores_given_by=max(map(self._threads_that_count, nodes), default=1)
            if self.whole_cores
            else 1,
            whole_nodes=bounds.exclusive,
        )

    def _threads_that_count(self, node: NodeFacts) -> int:
        """Return the node's hardware threads per core, divided by the fewest on any node of the
        cluster.

        The result is 1 where all cores of the cluster have the same number of threads.
        """
        return max(1, node.cpus_per_core // self.fewest_threads)


def _job_default(name: str, record: Record) -> int:
    """Return the number under ``name`` in ``JobDefaults=DefCpuPerGPU=4,DefMemPerGPU=8000``; 0: not
    set.
    """
    words = record.get("JobDefaults", "").split(",")
    values = (word.partition("=")[2] for word in words if word.startswith(f"{name}="))
    return next((count(value) or 0 for value in values), 0)


def _mib(text: str) -> int | None:
    return (count(text) or 0) * _MIB or None


UNUSABLE = re.compile(
    r"\*|\b(?:DOWN|DRAIN(?:ED|ING)?|FAIL(?:ING)?|ERROR|UNKNOWN|FUTURE|INVAL(?:ID)?(?:_REG)?|"
    r"NOT_RESPONDING|NO_RESPOND|MAINT(?:ENANCE)?|RESERVED|REBOOT(?:_ISSUED|_REQUESTED)?|BLOCKED|"
    r"POWERING_DOWN)\b"
)
"""Words of a node's state that prevent jobs from starting there; ``*``: the node does not respond,
``RESERVED``: only jobs that name the reservation start there, and Berth moves none of those.
"""


def read_cluster(*, timeout_s: float = commands.DEFAULT_TIMEOUT_S) -> ClusterFacts:
    """Return partitions and nodes as they are now. Raises SchedulerError or ToolMissing."""
    now_s = time.time()
    partitions = commands.run(("scontrol", "-a", "-o", "show", "partition"), timeout_s=timeout_s)
    nodes = commands.run(("scontrol", "-a", "-d", "-o", "show", "node"), timeout_s=timeout_s)
    pending_words = ("squeue", "-a", "-h", "-t", "PENDING", "-o", "%P|%r")
    waiting = commands.run(pending_words, timeout_s=timeout_s)
    version = commands.run(("sinfo", "-V"), timeout_s=timeout_s)
    config = commands.run(("scontrol", "show", "config"), timeout_s=timeout_s)
    return parse_cluster(partitions, nodes, waiting, version, config, as_of_s=now_s)


def parse_cluster(
    partitions: str, nodes: str, waiting: str, version: str, config: str = "", *, as_of_s: float
) -> ClusterFacts:
    """Return the cluster's state from the output of Slurm's commands. Raises SchedulerError where
    Slurm's format is not recognised, or there are no partitions or no nodes.

    Pending jobs that are held, or that wait for other jobs or for a date, are not counted as queued
    before others.
    """
    reasons = (line.partition("|") for line in waiting.splitlines())
    pending = Counter(
        name for names, _, reason in reasons if waits_for_room(reason) for name in names.split(",")
    )
    partition_records = tuple(records(partitions, "PartitionName"))
    node_facts = tuple(map(_node, records(nodes, "NodeName")))
    defaults = MemoryDefaults.of(config, node_facts)
    queues = [_queue(r, pending, defaults, node_facts) for r in partition_records]
    if not queues:
        raise SchedulerError("Slurm has no partitions that this user may see")
    if not node_facts:
        raise SchedulerError("Slurm has no nodes that this user may see")
    settings = commands.parse_configuration(config)
    if settings.get("SelectType", "").endswith("linear"):  # every job gets whole nodes
        queues = [replace(q, bounds=replace(q.bounds, exclusive=True)) for q in queues]
    return ClusterFacts(
        name="slurm",
        version=version.strip()[:64],
        as_of_s=as_of_s,
        queues=with_preemption(queues, partition_records, node_facts, settings),
        nodes=node_facts,
        refuses_lists=settings.get("EnforcePartLimits", "").upper() == "ALL",
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
    """Return the setting that closes a partition to users, such as ``Hidden=YES``; None: it is
    open.
    """
    if root_only:
        return "RootOnly=YES"
    return "Hidden=YES" if hidden else None


def _bounds(record: Record) -> QueueBounds:
    """Return the limits of a partition; None in a field: UNLIMITED, or Slurm wrote nothing."""

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
        exclusive=gives_whole_nodes(record),
        jobs_per_core=jobs_per_core(record.get("OverSubscribe", "")),
        priority_tier=whole(record, "PriorityTier", 1),
        priority_factor=whole(record, "PriorityJobFactor", 1),
        by_user=keeps_others_away(record),
        weighted="TRESBillingWeights" in record,
        billing_weights=billing_weights(record.get("TRESBillingWeights", "")),
    )


def _node(record: Record) -> NodeFacts:
    cpus = whole(record, "CPUTot", 1)
    installed = max(1, whole(record, "Sockets") * whole(record, "CoresPerSocket") or cpus)
    # Slurm counts hardware threads as CPUs, or cores where slurm.conf sets CPUs to the core count.
    cpus_per_core = max(1, cpus // installed)
    job_cpus = whole(record, "CPUEfctv") or cpus
    cores = min(installed, max(1, job_cpus // cpus_per_core))
    idle_cpus = job_cpus - whole(record, "CPUAlloc")
    memory, reserved = whole(record, "RealMemory"), whole(record, "MemSpecLimit")
    total = gres(record.get("Gres"))
    used = gres(record.get("GresUsed"))
    return NodeFacts(
        name=record["NodeName"],
        queues=names(record, "Partitions"),
        usable=UNUSABLE.search(record.get("State", "UNKNOWN")) is None,
        cores=cores,
        idle_cores=max(0, min(cores, idle_cpus // cpus_per_core)),
        memory_bytes=max(0, memory - reserved) * _MIB,
        architecture=record.get("Arch") or "x86_64",
        features=names(record, "ActiveFeatures") or names(record, "AvailableFeatures"),
        gpus=total,
        idle_gpus={name: max(0, count - used.get(name, 0)) for name, count in total.items()},
        system=system_of(record.get("OS")),
        used_memory_bytes=whole(record, "AllocMem") * _MIB,
        cpus_per_core=cpus_per_core,
        reserved_cores=installed - cores,
        reserved_memory_bytes=min(memory, reserved) * _MIB,
    )


def system_of(text: str | None) -> str | None:
    """Return operating system and release, such as ``Linux 6.1.0-18-amd64``, from a node's ``OS``
    field; None: the field is absent.
    """
    words = (text or "").split()
    return " ".join(words[:2]) if len(words) >= 2 else None


def read_reservations() -> tuple[ReservationFacts, ...]:
    """Return present and future reservations. Raises SchedulerError and ToolMissing."""
    return parse_reservations(commands.run(("scontrol", "-o", "show", "reservation"), utc=True))


def parse_reservations(text: str) -> tuple[ReservationFacts, ...]:
    """Parse reservations with times in UTC; those of parts of nodes or of licences are left out.

    Raises SchedulerError where the text is no list of reservations.
    """
    reservations = []
    for record in records(text, "ReservationName"):
        begin_s = moment_s(record.get("StartTime", ""), utc=True)
        end_s = moment_s(record.get("EndTime", ""), utc=True)
        nodes = record.get("Nodes", "")
        if begin_s is None or end_s is None or nodes in ("", "(null)"):
            continue
        if "PART_NODES" in record.get("Flags", "") or "FLEX" in record.get("Flags", ""):
            continue
        name = record["ReservationName"]
        reservations.append(ReservationFacts(name, frozenset(hostlist(nodes)), begin_s, end_s))
    return tuple(reservations)
