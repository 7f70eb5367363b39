"""What a job holds that asks for no memory: ``DefMemPer*`` of its partition, else of slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from berth.plugin.scheduler.facts import NodeFacts
from berth.plugin.slurm.records import Record, count
from berth.policies.values import DefaultMemory, QueueBounds

_MIB = 2**20
_LINE = re.compile(r"^(?P<key>\w+)\s*=\s*(?P<value>.*?)\s*$", re.MULTILINE)
_PER_GPU = re.compile(r"(?:^|,)DefMemPerGPU=(\d{1,12})(?=,|$)")


@dataclass(frozen=True, slots=True)
class MemoryDefaults:
    """The cluster's own defaults, in bytes; None: unlimited, or not set."""

    bytes_per_gpu: int | None = None
    bytes_per_core: int | None = None
    bytes_per_node: int | None = None
    shared_out: bool = False
    """Memory is a resource that jobs are given a part of (``SelectTypeParameters``)."""

    @staticmethod
    def of(config: str) -> MemoryDefaults:
        """Read the text of ``scontrol show config``; what is not in it is not set."""
        settings = {match["key"]: match["value"] for match in _LINE.finditer(config)}
        return MemoryDefaults(
            bytes_per_gpu=_per_gpu(settings.get("JobDefaults", "")),
            bytes_per_core=_mib(settings.get("DefMemPerCPU", "")),
            bytes_per_node=_mib(settings.get("DefMemPerNode", "")),
            shared_out="_MEMORY" in settings.get("SelectTypeParameters", "").upper(),
        )

    def of_queue(
        self, partition: Record, bounds: QueueBounds, nodes: Sequence[NodeFacts]
    ) -> DefaultMemory | None:
        """Return the defaults of a partition over these nodes; None: memory is not shared out."""
        if not self.shared_out:
            return None
        of_its_own = bounds.default_memory_bytes_per_core or bounds.default_memory_bytes_per_node
        return DefaultMemory(
            bytes_per_gpu=_per_gpu(partition.get("JobDefaults", "")) or self.bytes_per_gpu,
            bytes_per_core=bounds.default_memory_bytes_per_core
            if of_its_own
            else self.bytes_per_core,
            bytes_per_node=bounds.default_memory_bytes_per_node
            if of_its_own
            else self.bytes_per_node,
            node_bytes=min((n.memory_bytes for n in nodes if n.memory_bytes), default=None),
            node_cores=min((n.cores for n in nodes), default=1),
            whole_nodes=bounds.exclusive,
        )


def _per_gpu(job_defaults: str) -> int | None:
    match = _PER_GPU.search(job_defaults)
    return None if match is None else int(match[1]) * _MIB or None


def _mib(text: str) -> int | None:
    return (count(text) or 0) * _MIB or None
