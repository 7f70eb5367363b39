"""Reads a Slurm cluster by pyslurm instead of its commands: ``[slurm] read_with = "pyslurm"``.

pyslurm speaks Slurm's own binary protocol and is built against one major version: its builds on
PyPI are for Slurm 25.11 and no other. So the commands are the default, and this refuses, saying
why, wherever the versions differ. It has been tested against recorded data in pyslurm's form only,
never against a Slurm 25.11. Jobs are submitted, and their outcomes read, by the commands.
"""

from __future__ import annotations

import importlib
import re
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.scheduler import ClusterFacts, NodeFacts, QueueFacts
from berth.plugin.slurm import commands
from berth.plugin.slurm.cluster import UNUSABLE
from berth.plugin.slurm.states import waits_for_room

_MIB = 2**20
_MINUTE_S = 60.0
_MAJOR = re.compile(r"(\d+\.\d+)")


def matching_pyslurm() -> Any:
    """The module. Raises ToolMissing where it is absent or made for another Slurm."""
    try:
        module = importlib.import_module("pyslurm")
    except (ImportError, OSError) as error:  # its shared library may be another Slurm's
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
    """Queues and nodes as they are now. Raises SchedulerError or ToolMissing."""
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
        return ClusterFacts(
            name="slurm",
            version=f"slurm {module.__version__} (pyslurm)",
            as_of_s=now_s,
            queues={p.name: _queue(p, waiting) for p in partitions},
            nodes=tuple(_node(n) for n in nodes),
        )
    except (AttributeError, TypeError, ValueError, LookupError) as error:
        raise SchedulerError(f"pyslurm gave something unreadable: {error}") from None
    except Exception as error:  # its own errors have no base of ours
        raise SchedulerError(f"pyslurm failed: {error}") from None


def _queue(partition: Any, waiting: Mapping[str, int]) -> QueueFacts:
    return QueueFacts(
        name=partition.name,
        up=partition.state == "UP",
        is_default=bool(partition.is_default),
        max_time_s=_seconds(partition.max_time),
        default_time_s=_seconds(partition.default_time),
        allowed_accounts=_allowed(partition.allowed_accounts),
        allowed_qos=_allowed(partition.allowed_qos),
        pending_jobs=sum(n for names, n in waiting.items() if partition.name in names.split(",")),
    )


def _seconds(minutes: Any) -> float | None:
    """pyslurm gives minutes, ``UNLIMITED`` or None."""
    return _MINUTE_S * minutes if isinstance(minutes, int) else None


def _allowed(names: list[str] | None) -> tuple[str, ...] | None:
    return None if not names or names == ["ALL"] else tuple(names)


def _node(node: Any) -> NodeFacts:
    cores = max(1, node.sockets * node.cores_per_socket or node.total_cpus)
    per_core = max(1, node.total_cpus // cores)
    gpus = {k: int(v) for k, v in (node.configured_gres or {}).items() if k.startswith("gpu")}
    used = node.allocated_gres or {}
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
        idle_gpus={name: max(0, n - int(used.get(name, 0))) for name, n in gpus.items()},
        used_memory_bytes=(node.allocated_memory or 0) * _MIB,
    )
