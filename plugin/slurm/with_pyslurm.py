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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from berth.pilot.errors import BerthError, SchedulerError, ToolMissing
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.slurm import commands
from berth.plugin.slurm.cluster import UNUSABLE, MemoryDefaults, not_for_users, system_of
from berth.plugin.slurm.records import closed_as, waits_for_room
from berth.policies.values import QueueBounds

_MIB = 2**20
_MINUTE_S = 60.0
_HOLDING = frozenset(("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED"))
_MAJOR = re.compile(r"(\d+\.\d+)")


def matching_pyslurm() -> Any:
    """Return the pyslurm module. Raises ToolMissing where it is absent or built for
    another Slurm.
    """
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
        nodes = list(module.Nodes.load().values())
        partitions = list(module.Partitions.load().values())
        jobs = list(module.Jobs.load().values())
        waiting = Counter(
            j.partition
            for j in jobs
            if j.state == "PENDING" and waits_for_room(j.state_reason or "")
        )
        gpus = _gpus_in_use(jobs)
        facts = tuple(_node(n, gpus) for n in nodes)
        defaults = MemoryDefaults.of(commands.run(("scontrol", "show", "config")), facts)
        return ClusterFacts(
            name="slurm",
            version=f"slurm {module.__version__} (pyslurm)",
            as_of_s=now_s,
            queues={p.name: _queue(p, waiting, defaults, facts) for p in partitions},
            nodes=facts,
        )
    except BerthError:
        raise
    except (AttributeError, TypeError, ValueError, LookupError) as error:
        raise SchedulerError(f"pyslurm gave something unreadable: {error}") from None
    except Exception as error:  # pyslurm's own errors have no common base class
        raise SchedulerError(f"pyslurm failed: {error}") from None


def _queue(
    partition: Any,
    waiting: Mapping[str, int],
    defaults: MemoryDefaults,
    nodes: Sequence[NodeFacts],
) -> QueueFacts:
    own_nodes = [n for n in nodes if partition.name in n.queues]
    closed = closed_as(str(partition.state))
    bounds = defaults.limited({}, _bounds(partition), own_nodes)
    return QueueFacts(
        name=partition.name,
        up=closed is None,
        closed=closed,
        is_default=bool(partition.is_default),
        max_time_s=_seconds(partition.max_time),
        default_time_s=_seconds(partition.default_time),
        allowed_accounts=_allowed(partition.allowed_accounts),
        allowed_qos=_allowed(partition.allowed_qos),
        pending_jobs=sum(n for names, n in waiting.items() if partition.name in names.split(",")),
        bounds=bounds,
        default_memory=defaults.of_queue({}, bounds, own_nodes),
        qos=partition.qos or None,
        not_for_users=not_for_users(
            hidden=getattr(partition, "is_hidden", False),
            root_only=getattr(partition, "is_root_only", False),
        ),
    )


def _bounds(partition: Any) -> QueueBounds:
    """Return the limits of a partition. It is assumed to have TRESBillingWeights: pyslurm does not
    read them.
    """
    return QueueBounds(
        min_nodes=_count(partition.min_nodes) or 0,
        max_nodes=_count(partition.max_nodes),
        max_cores_per_node=_count(partition.max_cpus_per_node),
        max_memory_bytes_per_node=_bytes(partition.max_memory_per_node),
        max_memory_bytes_per_core=_bytes(partition.max_memory_per_cpu),
        default_memory_bytes_per_node=_bytes(partition.default_memory_per_node),
        default_memory_bytes_per_core=_bytes(partition.default_memory_per_cpu),
        max_time_s=_seconds(partition.max_time),
        default_time_s=_seconds(partition.default_time),
        exclusive=partition.oversubscribe == "EXCLUSIVE",
        weighted=True,
    )


def _count(value: Any) -> int | None:
    """Return a whole number; None for ``UNLIMITED`` and for no value, which both mean no limit."""
    return value if isinstance(value, int) else None


def _bytes(mib: Any) -> int | None:
    count = _count(mib)
    return count * _MIB if count else None


def _seconds(minutes: Any) -> float | None:
    """Return pyslurm's minutes in seconds; None for ``UNLIMITED`` and for no value."""
    return _MINUTE_S * minutes if isinstance(minutes, int) else None


def _allowed(names: list[str] | None) -> tuple[str, ...] | None:
    return None if not names or names == ["ALL"] else tuple(names)


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


def _node(node: Any, in_use: Mapping[tuple[str, str], int]) -> NodeFacts:
    cores = max(1, node.sockets * node.cores_per_socket or node.total_cpus)
    per_core = max(1, node.total_cpus // cores)
    gpus = {k: int(v) for k, v in (node.configured_gres or {}).items() if k.startswith("gpu")}
    return NodeFacts(
        name=node.name,
        queues=tuple(node.partitions or ()),
        usable=UNUSABLE.search(node.state) is None,
        cores=cores,
        idle_cores=max(0, min(cores, node.idle_cpus // per_core)),
        memory_bytes=(node.real_memory or 0) * _MIB,
        architecture=node.architecture or "x86_64",
        features=tuple(node.active_features or node.available_features or ()),
        gpus=gpus,
        idle_gpus={name: max(0, n - in_use.get((node.name, name), 0)) for name, n in gpus.items()},
        system=system_of(node.operating_system),
        used_memory_bytes=(node.allocated_memory or 0) * _MIB,
        cpus_per_core=per_core,
    )
