"""What a job holds that asks for no memory: ``DefMemPer*`` of its partition, else of slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from berth.plugin.scheduler.facts import NodeFacts
from berth.plugin.slurm.records import Record, count
from berth.policies.values import DefaultMemory, QueueBounds

_MIB = 2**20
_LINE = re.compile(r"^(?P<key>\w+)[ \t]*=[ \t]*(?P<value>.*?)[ \t\r]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MemoryDefaults:
    """The cluster's own defaults, in bytes; None: unlimited, or not set."""

    bytes_per_gpu: int | None = None
    cores_per_gpu: int = 0
    """``DefCpuPerGPU``; 0: not set."""
    bytes_per_core: int | None = None
    bytes_per_node: int | None = None
    shared_out: bool = False
    """Memory is a resource that jobs are given a part of (``SelectTypeParameters``)."""
    most_bytes_per_core: int | None = None
    """``MaxMemPerCPU``, where a partition sets no limit of its own; likewise the next."""
    most_bytes_per_node: int | None = None
    whole_cores: bool = False
    """Jobs are given all threads of a core, and the memory of each."""
    fewest_threads: int = 1
    """Of the cores of any node: only where a queue's cores have more does it matter."""

    @staticmethod
    def of(config: str, nodes: Sequence[NodeFacts] = ()) -> MemoryDefaults:
        """Read the text of ``scontrol show config``; what is not in it is not set.

        ``nodes``: all of the cluster.
        """
        settings = {match["key"]: match["value"] for match in _LINE.finditer(config)}
        selected = settings.get("SelectTypeParameters", "").upper()
        return MemoryDefaults(
            bytes_per_gpu=_of_job_defaults("DefMemPerGPU", settings) * _MIB or None,
            cores_per_gpu=_of_job_defaults("DefCpuPerGPU", settings),
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
        """Return the limits of a partition over these nodes, with the cluster's where it has none
        on memory."""
        threads = max((n.cpus_per_core for n in nodes), default=1)
        bounds = replace(
            bounds,
            cpus_per_core=threads,
            default_cores_per_gpu=_of_job_defaults("DefCpuPerGPU", partition) or self.cores_per_gpu,
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
        """Return the defaults of a partition over these nodes; None: memory is not shared out."""
        if not self.shared_out:
            return None
        of_its_own = bounds.default_memory_bytes_per_core or bounds.default_memory_bytes_per_node
        return DefaultMemory(
            bytes_per_gpu=_of_job_defaults("DefMemPerGPU", partition) * _MIB or self.bytes_per_gpu,
            bytes_per_core=bounds.default_memory_bytes_per_core
            if of_its_own
            else self.bytes_per_core,
            bytes_per_node=bounds.default_memory_bytes_per_node
            if of_its_own
            else self.bytes_per_node,
            node_bytes=min((n.memory_bytes for n in nodes if n.memory_bytes), default=None),
            node_cores=min((n.cores * self._threads_that_count(n) for n in nodes), default=1),
            most_node_cores=max((n.cores * n.cpus_per_core for n in nodes), default=None),
            cores_given_by=max(map(self._threads_that_count, nodes), default=1)
            if self.whole_cores
            else 1,
            whole_nodes=bounds.exclusive,
            cores_per_gpu=bounds.default_cores_per_gpu,
            cpus_per_core=bounds.cpus_per_core,
        )

    def _threads_that_count(self, node: NodeFacts) -> int:
        """Return how many times as many CPUs a core of this node is as one of other nodes.

        Where all cores are alike, as many count in the next partition as in this one.
        """
        return max(1, node.cpus_per_core // self.fewest_threads)


def _of_job_defaults(name: str, record: Record) -> int:
    """Return a number of ``JobDefaults=DefCpuPerGPU=4,DefMemPerGPU=8000``; 0: it is not set."""
    words = record.get("JobDefaults", "").split(",")
    values = (word.partition("=")[2] for word in words if word.startswith(f"{name}="))
    return next((count(value) or 0 for value in values), 0)


def _mib(text: str) -> int | None:
    return (count(text) or 0) * _MIB or None
