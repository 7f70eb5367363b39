"""What a job would use and be billed in a queue, and whether the queue's own limits allow it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from berth.pilot.units import format_bytes, format_seconds
from berth.policies.resources import memory_form, own_cores_per_node
from berth.policies.values import (
    UNBOUNDED,
    Candidate,
    MemoryForm,
    QueueBounds,
    Request,
    Resources,
)

_MIB = 2**20


def holds(
    request: Request, held: Resources, candidate: Candidate, bounds: QueueBounds
) -> Mapping[str, float]:
    """Return the total of each resource that the job would use; memory is in MiB.

    Keys are the names in limits: ``cpu``, ``node``, ``billing``, ``mem``, ``gres/gpu``,
    ``gres/gpu:TYPE``.
    """
    nodes = max(1, held.nodes)
    cores = cores_on_node(request, held, candidate, bounds)
    amounts = {
        "cpu": float(max(held.cores, cores * nodes if _takes_more(request, bounds) else 0)),
        "node": float(nodes),
        "billing": math.inf if bounds.weighted else 0.0,
        "mem": memory_on_node(request, held, candidate, bounds) * nodes / _MIB,
    }
    amounts["billing"] = amounts["billing"] or amounts["cpu"]
    if held.gpus:
        amounts["gres/gpu"] = float(held.gpus)
        kind = (candidate.gres or "gpu").partition(":")[2]
        if kind:
            amounts[f"gres/gpu:{kind}"] = float(held.gpus)
    return amounts


def billing(
    request: Request, held: Resources, candidate: Candidate, bounds: QueueBounds
) -> tuple[float, float]:
    """Return what the job is billed for an hour in the queue: the sum of its weighted resources,
    and the largest of them (Slurm's ``PriorityFlags=MAX_TRES``).
    """
    amounts = holds(request, held, candidate, bounds)
    if not bounds.billing_weights:
        return amounts["cpu"], amounts["cpu"]
    parts = [weight * amounts.get(name, 0.0) for name, weight in bounds.billing_weights]
    return sum(parts), max(parts)


def cores_on_node(
    request: Request, held: Resources, candidate: Candidate, bounds: QueueBounds
) -> int:
    """Return the number of cores that the job uses on the node where it uses most."""
    nodes = max(1, held.nodes)
    if takes_whole_nodes(request, bounds):
        return candidate.cores_per_node * bounds.cpus_per_core
    gpus = -(-held.gpus // nodes)
    per_gpu = request.needs.cores_per_gpu
    if request.resources.cpus_per_task <= 1 and request.resources.gpus:
        per_gpu = per_gpu or bounds.default_cores_per_gpu
    return max(
        -(-max(1, held.tasks) // nodes) * max(1, held.cpus_per_task),
        request.needs.min_cores_per_node,
        per_gpu * gpus,
    )


def memory_on_node(
    request: Request, held: Resources, candidate: Candidate, bounds: QueueBounds
) -> int:
    """Return the bytes that the job uses on the node where it uses most.

    Where the job requests no memory, the queue's default applies.
    """
    if held.memory_bytes_per_node is not None:
        if memory_form(request) is not MemoryForm.CORE:
            return held.memory_bytes_per_node
        own = own_cores_per_node(held)
        cores = max(own, cores_on_node(request, held, candidate, bounds))
        return held.memory_bytes_per_node // own * cores
    if request.needs.all_memory:
        return candidate.memory_bytes_per_node or 0
    if bounds.default_memory_bytes_per_core is not None:
        cores = cores_on_node(request, held, candidate, bounds)
        return bounds.default_memory_bytes_per_core * cores
    if bounds.default_memory_bytes_per_node is not None:
        return bounds.default_memory_bytes_per_node
    return candidate.memory_bytes_per_node or 0  # Slurm: a job without a memory request gets all


def over_bounds(
    request: Request, held: Resources, candidate: Candidate, bounds: QueueBounds
) -> str | None:
    """Return which queue limit the job would break, as the end of a sentence; None: it breaks
    none.
    """
    if bounds is UNBOUNDED or bounds == UNBOUNDED:
        return None
    nodes = max(1, held.nodes)
    cores = cores_on_node(request, held, candidate, bounds)
    memory = memory_on_node(request, held, candidate, bounds)
    by_core = None
    if bounds.max_memory_bytes_per_core is not None:
        by_core = bounds.max_memory_bytes_per_core * cores
    by_default = None
    if held.memory_bytes_per_node is None:
        by_default = candidate.memory_bytes_per_node
    of_node = candidate.memory_bytes_per_node if held.memory_bytes_per_node is not None else None
    asked = request.resources.nodes
    most_nodes = max(nodes, request.needs.max_nodes if asked in (0, held.nodes) else 0)
    most: tuple[tuple[float, float | None, Callable[[float], str], str], ...] = (
        (most_nodes, bounds.max_nodes, _count, "nodes a job"),
        (cores, bounds.max_cores_per_node, _count, "cores a node"),
        (memory, bounds.max_memory_bytes_per_node, format_bytes, "memory a node"),
        (memory, by_core, format_bytes, "memory for its cores"),
        (memory, by_default, format_bytes, "memory a node, less than the default of the queue"),
        (memory, of_node, format_bytes, "memory a node, less than by core on all its cores"),
        (request.time_limit_s or 0.0, bounds.max_time_s, format_seconds, "a job"),
    )
    for needed, limit, formatted, subject in most:
        if limit is not None and needed > limit:
            return f"allows {formatted(limit)} {subject} and it needs {formatted(needed)}"
    if nodes < bounds.min_nodes:
        return f"wants at least {bounds.min_nodes} nodes a job and it needs {nodes}"
    return None


def _count(number: float) -> str:
    return f"{number:g}"


def _takes_more(request: Request, bounds: QueueBounds) -> bool:
    needs = request.needs
    return (
        takes_whole_nodes(request, bounds)
        or needs.min_cores_per_node > 0
        or needs.cores_per_gpu > 0
        or (bounds.default_cores_per_gpu > 0 and request.resources.gpus > 0)
    )


def takes_whole_nodes(request: Request, bounds: QueueBounds) -> bool:
    """Return whether the job gets whole nodes; where cores are shared by force, none does."""
    return bounds.exclusive or (request.needs.exclusive and bounds.jobs_per_core == 0)


def present_limit_s(request: Request, candidate: Candidate) -> float | None:
    """Return the job's time limit in seconds where no prediction raises it; None: no limit.

    A job that names none keeps the limit of its own queue where that is longer than the default.
    """
    if request.time_limit_s is not None:
        return request.time_limit_s
    longest_s = candidate.max_time_s
    default_s = candidate.default_time_s or longest_s
    own_s = None if request.own is None else request.own.limit_s
    if own_s is None or default_s is None:
        return default_s
    return max(default_s, own_s if longest_s is None else min(own_s, longest_s))


def limits_there_s(candidate: Candidate, bounds: QueueBounds) -> tuple[float, float]:
    """Return the time limit in seconds that a job gets by default at a place, and the longest;
    infinity: no limit."""
    both = candidate.max_time_s, bounds.max_time_s
    longest_s = min((most_s for most_s in both if most_s is not None), default=math.inf)
    return bounds.default_time_s or candidate.default_time_s or longest_s, longest_s
