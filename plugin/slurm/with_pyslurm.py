"""Reads a Slurm cluster with pyslurm instead of Slurm's commands: ``[slurm] read_with =
"pyslurm"``.

pyslurm speaks Slurm's own binary protocol and is built for one major version: its builds on PyPI
are for Slurm 25.11 only. So the commands are the default, and this module refuses, with the reason,
where the versions differ. Tried with pyslurm 25.11.2 on Slurm 25.11.7: the result equals that of
the commands except for TRESBillingWeights, which pyslurm does not read. Submission and outcomes
always use the commands.
"""

from __future__ import annotations

import importlib
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from berth.pilot.errors import BerthError, SchedulerError, ToolMissing
from berth.plugin.scheduler import ClusterFacts
from berth.plugin.slurm import commands
from berth.plugin.slurm.cluster import cluster_of
from berth.plugin.slurm.records import Record

_HOLDING = frozenset(("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED"))
_MAJOR = re.compile(r"(\d+\.\d+)")


def matching_pyslurm() -> Any:
    """Return the pyslurm module. Raises ToolMissing where it is absent or built for another
    Slurm."""
    try:
        module = importlib.import_module("pyslurm")
    except (ImportError, OSError) as error:  # OSError: its library is for another Slurm
        raise ToolMissing(
            "pyslurm",
            needed_for="reading Slurm without its commands",
            hint=f'take read_with = "pyslurm" out of the site file\'s [slurm] ({error})',
        ) from None
    ours = _MAJOR.search(commands.run(("sinfo", "-V")))
    theirs = _MAJOR.search(str(module.__version__))
    if ours is None or theirs is None or ours[1] != theirs[1]:
        raise ToolMissing(
            f"pyslurm for Slurm {ours[1] if ours else '?'}",
            needed_for="reading Slurm without its commands",
            hint=f"the one here is for Slurm {theirs[1] if theirs else '?'}; "
            'set read_with = "commands" in [slurm] of the site file',
        )
    return module


def read_cluster() -> ClusterFacts:
    """Return partitions and nodes as they are now. Raises SchedulerError or ToolMissing."""
    module = matching_pyslurm()
    now_s = time.time()
    try:
        jobs = list(module.Jobs.load().values())
        gpus = _gpus_in_use(jobs)
        nodes = [_node_record(node, gpus) for node in module.Nodes.load().values()]
        partitions = [_partition_record(each) for each in module.Partitions.load().values()]
        waiting = [
            (job.partition, job.state_reason or "") for job in jobs if job.state == "PENDING"
        ]
        return cluster_of(
            partitions,
            nodes,
            waiting,
            f"slurm {module.__version__} (pyslurm)",
            commands.run(("scontrol", "show", "config")),
            as_of_s=now_s,
        )
    except BerthError:
        raise
    except (AttributeError, TypeError, ValueError, LookupError) as error:
        raise SchedulerError(f"pyslurm gave something unreadable: {error}") from None
    except Exception as error:  # pyslurm's own errors have no common base class
        raise SchedulerError(f"pyslurm failed: {error}") from None


def _partition_record(partition: Any) -> Record:
    """Return the partition as ``scontrol show partition`` writes it. It is assumed to have
    TRESBillingWeights: pyslurm does not read them."""
    return {
        "PartitionName": partition.name,
        "State": str(partition.state),
        "Default": _yes(partition.is_default),
        "MaxTime": _clock(partition.max_time),
        "DefaultTime": _clock(partition.default_time),
        "AllowAccounts": ",".join(partition.allowed_accounts or ("ALL",)),
        "AllowQos": ",".join(partition.allowed_qos or ("ALL",)),
        "MinNodes": str(partition.min_nodes),
        "MaxNodes": str(partition.max_nodes),
        "MaxCPUsPerNode": str(partition.max_cpus_per_node),
        "MaxMemPerNode": str(partition.max_memory_per_node),
        "MaxMemPerCPU": str(partition.max_memory_per_cpu),
        "DefMemPerNode": str(partition.default_memory_per_node),
        "DefMemPerCPU": str(partition.default_memory_per_cpu),
        "OverSubscribe": str(partition.oversubscribe),
        "QoS": partition.qos or "N/A",
        "Hidden": _yes(getattr(partition, "is_hidden", False)),
        "RootOnly": _yes(getattr(partition, "is_root_only", False)),
        "PriorityTier": str(getattr(partition, "priority_tier", 1)),
        "PreemptMode": str(getattr(partition, "preempt_mode", None) or ""),
        "TRESBillingWeights": "",
    }


def _yes(value: bool) -> str:
    return "YES" if value else "NO"


def _clock(minutes: Any) -> str:
    """Return pyslurm's minutes as Slurm's ``days-hours:minutes:seconds``, or its ``UNLIMITED``."""
    return f"0-00:{minutes}:00" if isinstance(minutes, int) else str(minutes)


def _gpus_in_use(jobs: Iterable[Any]) -> Counter[tuple[str, str]]:
    """Count allocated GPUs by node and type, summed over jobs.

    A node's own TRES list GPUs only where the site accounts for them (AccountingStorageTRES).
    """
    in_use: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.state in _HOLDING:
            for node, held in job.get_resource_layout_per_node().items():
                for name, gres in (held["gres"] or {}).items():
                    in_use[node, name] += int(gres["count"] if isinstance(gres, dict) else gres)
    return in_use


def _node_record(node: Any, in_use: Mapping[tuple[str, str], int]) -> Record:
    """Return the node as ``scontrol show node`` writes it."""
    gres = node.configured_gres or {}
    return {
        "NodeName": node.name,
        "Partitions": ",".join(node.partitions or ()),
        "State": node.state,
        "CPUTot": str(node.total_cpus),
        "CPUEfctv": str(node.effective_cpus or 0),
        "CPUAlloc": str(node.allocated_cpus),
        "Sockets": str(int(node.sockets)),
        "CoresPerSocket": str(int(node.cores_per_socket)),
        "RealMemory": str(node.real_memory or 0),
        "MemSpecLimit": str(node.memory_reserved_for_system or 0),
        "AllocMem": str(node.allocated_memory or 0),
        "Arch": node.architecture or "",
        "OS": node.operating_system or "",
        "ActiveFeatures": ",".join(node.active_features or ()),
        "AvailableFeatures": ",".join(node.available_features or ()),
        "Gres": ",".join(f"{name}:{count}" for name, count in gres.items()),
        "GresUsed": ",".join(f"{name}:{in_use.get((node.name, name), 0)}" for name in gres),
    }
