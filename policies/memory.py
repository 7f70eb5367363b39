"""The host memory that a job requests on another candidate.

A job that requests no memory gets its queue's default. Another queue's default, or fewer cores,
would give it less, so Berth writes the original amount into the job wherever the job goes. Without
a request of the user the amount is max(memory in the original queue, predicted upper bound); a
request of the user is kept.
"""

from __future__ import annotations

import math

from berth.policies.translate import asked_shape
from berth.policies.values import Candidate, MemoryForm, Request, Resources
from berth.predictor.core.prediction import Interval

_MIB = 2**20


def held_where_it_was(request: Request) -> int | None:
    """Return the bytes per node that the job gets if Berth leaves it alone; None: memory is
    unlimited.
    """
    asked, default = request.resources, request.default_memory
    if asked.memory_bytes_per_node is not None or default is None:
        return _asked_on_all_cores(request)
    if request.needs.all_memory:
        return default.node_bytes
    if default.bytes_per_gpu is not None and asked.gpus:
        return default.bytes_per_gpu * _ceil(asked.gpus, max(1, asked.nodes))
    if default.bytes_per_core is not None:
        return default.bytes_per_core * _cores_where_it_was(request)
    return default.bytes_per_node or default.node_bytes


def _asked_on_all_cores(request: Request) -> int | None:
    """Return the requested bytes per node; a request per core counts for all cores that the job
    gets.
    """
    memory, cores = request.resources.memory_bytes_per_node, _cores_where_it_was(request)
    by_core = bytes_per_core_where_it_was(request)
    if memory is None or by_core is None or cores == own_cores_per_node(request.resources):
        return memory
    return by_core * cores


def bytes_per_core_where_it_was(request: Request) -> int | None:
    """Return the job's bytes per core, as requested or by default; None: memory is not per core."""
    if memory_form(request) is not MemoryForm.CORE:
        return None
    memory = request.resources.memory_bytes_per_node
    if memory is not None:
        return _in_mib(memory / own_cores_per_node(request.resources))
    return None if request.default_memory is None else request.default_memory.bytes_per_core


def own_cores_per_node(resources: Resources) -> int:
    """Return the cores of the tasks on the fullest node: the factor for memory per core."""
    tasks, nodes = max(1, resources.tasks), max(1, resources.nodes)
    return _ceil(tasks, nodes) * max(1, resources.cpus_per_task)


def _nodes_where_it_was(request: Request) -> int:
    tasks, per_node = max(1, request.resources.tasks), request.needs.tasks_per_node
    return max(
        1,
        request.resources.nodes,
        1 if per_node is None else _ceil(tasks, per_node),
        _nodes_that_its_tasks_took(request),
    )


def _nodes_that_its_tasks_took(request: Request) -> int:
    """Return the fewest nodes of the original queue that the tasks fit on; 1 if memory is not
    per node.
    """
    asked, default = request.resources, request.default_memory
    if default is None or default.most_node_cores is None:
        return 1
    if memory_form(request) is not MemoryForm.NODE:
        return 1  # memory per core or per GPU has the same total on any number of nodes
    by_gpu = asked.memory_bytes_per_node is None and default.bytes_per_gpu is not None
    if by_gpu and asked.gpus and not request.needs.all_memory:
        return 1
    tasks_per_node = max(1, default.most_node_cores // max(1, asked.cpus_per_task))
    return _ceil(max(1, asked.tasks), tasks_per_node)


def _cores_where_it_was(request: Request) -> int:
    """Return the cores per node that memory per core is multiplied by in the original queue."""
    default, cores = request.default_memory, own_cores_per_node(request.resources)
    if request.resources.memory_bytes_per_node is None:
        cores = max(
            cores, request.needs.min_cores_per_node
        )  # with a memory request: counted on each candidate
    if default is None:
        return cores
    if request.needs.exclusive or default.whole_nodes:
        cores = max(cores, default.node_cores)
    return _ceil(cores, default.cores_given_by) * default.cores_given_by


def memory_form(request: Request) -> MemoryForm:
    """Return the form of the memory request: as the user wrote it, else as the queue's default
    is set.
    """
    if request.needs.memory_form is not None:
        return request.needs.memory_form
    default = request.default_memory
    if default is None or request.needs.all_memory:
        return MemoryForm.NODE
    if default.bytes_per_gpu is not None and request.resources.gpus:
        return MemoryForm.NODE  # job steps share memory per node, as they share the default
    return MemoryForm.NODE if default.bytes_per_core is None else MemoryForm.CORE


def with_memory(
    request: Request, candidate: Candidate, held: Resources, predicted: Interval | None
) -> Resources | str:
    """Return ``held`` with the memory that the job must request, or why no node has that much.

    ``held`` is the translated request. ``predicted`` is the host memory of the whole job, in bytes;
    None: unknown.
    """
    asked = request.resources.memory_bytes_per_node
    if not candidate.translation.keep_memory and not candidate.is_gpu and _is_measured(predicted):
        assert predicted is not None  # noqa: S101 - it is measured
        as_the_site_wishes = _in_mib(predicted.high / held.nodes)
        return _holding(held, as_the_site_wishes)
    before = held_where_it_was(request)
    if before is None:
        return held
    total = before * _nodes_where_it_was(request)
    if asked is None and request.needs.all_memory:
        problem = _too_much(candidate, max(before, _ceil(total, held.nodes)), asked=False)
        return problem or held  # ``--mem=0`` stays as the user wrote it
    if memory_form(request) is MemoryForm.CORE:
        memory = _by_core(request, candidate, held, total)
    else:
        memory = max(before, _ceil(total, held.nodes))
    problem = _too_much(candidate, memory, asked=asked is not None)
    if problem is None and memory_form(request) is MemoryForm.CORE:
        problem = _too_much_on_all_cores(request, candidate, held, memory)
    if problem is not None:
        return problem
    if asked is None and predicted is not None and predicted.high > memory * held.nodes:
        # Where no node has that much, the constraint ``memory_fits`` excludes the candidate.
        memory = _in_mib(predicted.high / held.nodes)
        if memory_form(request) is MemoryForm.CORE:
            cores = own_cores_per_node(held)
            memory = _in_mib(memory / cores) * cores
    return _holding(held, memory)


def _by_core(request: Request, candidate: Candidate, held: Resources, total: int) -> int:
    """Return the memory per node in bytes for a request per core: a whole number of MiB per core.

    Where tasks and cores per task are unchanged, the memory per core stays the same; else the total
    memory stays the same.
    """
    asked, own = request.resources, own_cores_per_node(held)
    by_core = bytes_per_core_where_it_was(request) or 0
    same_shape = (held.tasks, held.cpus_per_task) == asked_shape(request)
    cores = max(own, request.needs.min_cores_per_node)
    if request.needs.exclusive:
        cores = candidate.cores_per_node
    if not same_shape or _cores_where_it_was(request) > own_cores_per_node(asked):
        by_core = max(by_core if same_shape else 0, _in_mib(total / held.nodes / cores))
    return by_core * own


def _too_much_on_all_cores(
    request: Request, candidate: Candidate, held: Resources, memory_bytes: int
) -> str | None:
    """Return why no node has that much memory per core on all its cores; None: a node has it.

    Checked for jobs on whole nodes only.
    """
    own, capacity = own_cores_per_node(held), candidate.memory_bytes_per_node
    whole = request.needs.exclusive or request.needs.min_cores_per_node > own
    if whole and capacity is not None and memory_bytes // own * candidate.cores_per_node > capacity:
        return "the memory by core, on all cores of a node, is more than a node has"
    return None


def _is_measured(predicted: Interval | None) -> bool:
    """Return whether the predicted memory has a lower bound above 0; otherwise only a maximum is
    known.
    """
    return predicted is not None and predicted.low > 0


def _too_much(candidate: Candidate, memory_bytes: int, *, asked: bool) -> str | None:
    """Return the sentence that no node of the candidate has that much memory; None: a node has
    it.
    """
    capacity = candidate.memory_bytes_per_node
    if capacity is None or memory_bytes <= capacity:
        return None
    needed, there = f"{memory_bytes / 2**30:.0f} GiB", f"{capacity / 2**30:.0f} GiB"
    if asked:
        return f"you asked for {needed} a node and a node has {there}"
    return f"it holds {needed} a node if it is left alone, and a node here has {there}"


def _in_mib(memory_bytes: float) -> int:
    return math.ceil(memory_bytes / _MIB) * _MIB


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _holding(held: Resources, memory_bytes_per_node: int) -> Resources:
    return Resources(held.nodes, held.tasks, held.cpus_per_task, held.gpus, memory_bytes_per_node)
