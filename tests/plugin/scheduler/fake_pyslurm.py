"""A stand-in for the module ``pyslurm``: recorded data in its form, no Slurm needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

_PARTITION = {
    "state": "UP",
    "is_default": False,
    "max_time": 120,
    "default_time": "UNLIMITED",
    "allowed_accounts": ["ALL"],
    "allowed_qos": ["high"],
    "qos": None,
    "min_nodes": 1,
    "max_nodes": 2,
    "max_cpus_per_node": "UNLIMITED",
    "max_memory_per_node": 4000,
    "max_memory_per_cpu": None,
    "default_memory_per_node": None,
    "default_memory_per_cpu": 1000,
    "oversubscribe": "NO",
    "priority_tier": 1,
    "preempt_mode": None,
}
PARTITIONS = (
    {**_PARTITION, "name": "gpu"},
    {**_PARTITION, "name": "cpu", "is_default": True, "allowed_qos": ["ALL"]},
)
GPU_NODE = {
    "name": "n1",
    "partitions": ["gpu"],
    "state": "MIXED",
    "sockets": 2,
    "cores_per_socket": 16,
    "total_cpus": 64,
    "effective_cpus": 60,
    "allocated_cpus": 20,
    "real_memory": 512_000,
    "memory_reserved_for_system": 12_000,
    "allocated_memory": 128_000,
    "architecture": "x86_64",
    "active_features": ["h100"],
    "available_features": ["h100"],
    "configured_gres": {"gpu:h100": 4, "shard": 8},
    "operating_system": "Linux 6.1.0-18-amd64 #1 SMP",
}
CPU_NODE = {
    **GPU_NODE,
    "name": "n2",
    "partitions": ["cpu"],
    "state": "IDLE",
    "effective_cpus": 64,
    "allocated_cpus": 0,
    "memory_reserved_for_system": None,
    "allocated_memory": 0,
    "active_features": None,
    "available_features": None,
    "configured_gres": None,
}
JOBS = (
    {"state": "PENDING", "partition": "gpu,cpu", "state_reason": "Priority"},
    {"state": "PENDING", "partition": "gpu", "state_reason": "JobHeldUser"},
    {"state": "RUNNING", "partition": "gpu", "state_reason": "None"},
)
HELD = {"n1": {"cpu_ids": "0-15", "gres": {"gpu:h100": {"count": 1, "indexes": "0"}}, "memory": 1}}
"""What the running job holds."""


def recorded_pyslurm(version: str = "25.11.2", **changes: Any) -> SimpleNamespace:
    """The module; ``changes`` are of the GPU node."""

    def loads(*things: dict[str, Any]) -> Any:
        found = {i: SimpleNamespace(**thing) for i, thing in enumerate(things)}
        return SimpleNamespace(load=lambda: found)

    return SimpleNamespace(
        __version__=version,
        Nodes=loads({**GPU_NODE, **changes}, CPU_NODE),
        Partitions=loads(*PARTITIONS),
        Jobs=loads(*({**job, "get_resource_layout_per_node": lambda: HELD} for job in JOBS)),
    )
