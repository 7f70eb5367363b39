"""The resources that a job asks for on another candidate: cores, GPUs, nodes and host memory.

The number of tasks and the cores per task are kept, because a script may name them anywhere (``srun
-n 8``). They change (for example from 32 MPI tasks to one task with a GPU and 8 cores) only where
the site or the workload says that the script uses whatever it is given.

A job that requests no memory gets its queue's default. Another queue's default, or fewer cores,
would give it less, so Berth writes the original amount into the job wherever the job goes. Without
a request of the user the amount is max(memory in the original queue, predicted upper bound); a
request of the user is kept.

What is impossible is a sentence instead of an exception: the reason that excludes the candidate.
"""

from __future__ import annotations

import math
from dataclasses import replace

from berth.policies.values import Candidate, MemoryForm, Request, Resources
from berth.predictor.core.prediction import Interval

_MIB = 2**20


def translate(request: Request, candidate: Candidate) -> Resources | str:
    """Return the request in the candidate's resources, or a sentence on why translation is
    impossible.

    The result has no memory: ``with_memory`` adds it.
    """
    asked, rule = request.resources, candidate.translation
    tasks, cpus = asked_shape(request)
    gpus = 0
    if candidate.is_gpu:
        gpus = asked.gpus
        if gpus == 0:
            gpus = max(1, rule.gpus)
            if rule.tasks_per_gpu is not None:
                gpus = max(gpus, -(-tasks // rule.tasks_per_gpu))
            if not keeps_shape(request, candidate):
                tasks, cpus = gpus, max(cpus, rule.cpus_per_gpu or 1)
    most = rule.max_cores
    if most is not None and tasks * cpus > most:
        if candidate.is_gpu or keeps_shape(request, candidate) or cpus > most:
            needed = f"{tasks} tasks need {tasks * cpus}" if tasks > 1 else f"one task needs {cpus}"
            return f"{needed} cores and the site allows {most} here"
        tasks = most // cpus
    tasks_per_node = candidate.cores_per_node // cpus
    if tasks_per_node < 1:
        return f"one task needs {cpus} cores and a node has {candidate.cores_per_node}"
    nodes = -(-tasks // tasks_per_node)
    if candidate.is_gpu:
        nodes = max(-(-gpus // candidate.gpus_per_node), nodes)
    least = Resources(nodes, tasks, cpus, gpus)
    held = replace(least, nodes=_nodes(request, candidate, least))
    problem = _layout_problem(request, candidate, least)
    return problem or _too_many_nodes(request, candidate, held.nodes, gpus) or held


def keeps_shape(request: Request, candidate: Candidate) -> bool:
    """Return whether the number of tasks and the cores per task must stay as requested."""
    rule = candidate.translation.keep_tasks
    if request.keeps_shape or rule is None:
        return request.keeps_shape or not request.follows_shape
    return rule


def asked_shape(request: Request) -> tuple[int, int]:
    """Return the requested number of tasks and the cores per task, each at least 1."""
    return max(1, request.resources.tasks), max(1, request.resources.cpus_per_task)


def _nodes(request: Request, candidate: Candidate, held: Resources) -> int:
    """Return the largest of the numbers of nodes that the job's cores and GPUs (``held``), its
    tasks per node and the user's request need."""
    nodes, asked, needs = held.nodes, request.resources, request.needs
    if needs.tasks_per_node is not None and held.tasks == max(1, asked.tasks):
        nodes = max(nodes, -(-held.tasks // needs.tasks_per_node))
    becomes_another = held.gpus > asked.gpus and not keeps_shape(request, candidate)
    if "nodes" in request.pinned or not becomes_another:
        nodes = max(nodes, asked.nodes)
    return nodes


def _layout_problem(request: Request, candidate: Candidate, held: Resources) -> str | None:
    needs, cores = request.needs, candidate.cores_per_node
    unchanged = (held.tasks, held.cpus_per_task) == asked_shape(request)
    # Slurm requires nodes on which the tasks per node fit, even where the job has fewer tasks.
    wanted = (needs.tasks_per_node or 0) * held.cpus_per_task if unchanged else 0
    if wanted > cores:
        return f"your tasks per node take {wanted} cores and a node has {cores}"
    if unchanged and (needs.tasks_per_node or 0) > held.tasks:
        # Slurm compares the limits of partitions and QOS with the tasks per node.
        return f"you asked for {needs.tasks_per_node} tasks per node and {held.tasks} in all"
    if needs.min_cores_per_node > cores:
        return f"you asked for nodes with {needs.min_cores_per_node} cores and a node has {cores}"
    if needs.cores_per_gpu * -(-held.gpus // max(1, held.nodes)) > cores:
        return f"{needs.cores_per_gpu} cores a GPU are more than a node has"
    return None


def _too_many_nodes(request: Request, candidate: Candidate, nodes: int, gpus: int) -> str | None:
    asked, limit = request.resources, candidate.translation.max_nodes
    own, needs = request.own, request.needs
    if nodes > 1 and own is not None and asked.nodes <= 1 and needs.tasks_per_node is None:
        least = 1 if own.default_memory is None else own.default_memory.node_cores
        fits_there = asked.cores <= max(own.cores_per_node, least)
        if fits_there and keeps_shape(request, candidate):
            return f"it fits on one node of its own queue and would take {nodes} here"
    most = needs.max_nodes if asked.nodes <= needs.max_nodes else 0
    if "nodes" in request.pinned and 0 < asked.nodes < nodes:
        most = asked.nodes
    if 0 < most < nodes:
        return f"it needs {nodes} nodes here and you asked for {most}"
    if limit is not None and nodes > limit:
        return f"it needs {nodes} nodes and the site allows {limit} here"
    if candidate.nodes is not None and nodes > candidate.nodes:
        return f"it needs {nodes} nodes and there are {candidate.nodes}"
    if gpus and gpus < nodes:
        its = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
        return f"it takes {nodes} nodes, which is more than its {its}"
    return None


def memory_form(request: Request) -> MemoryForm:
    """Return the form of the memory request: as the user wrote it, else as the queue's default
    is set."""
    if request.needs.memory_form is not None:
        return request.needs.memory_form
    default = request.default_memory
    if default is None or request.needs.all_memory:
        return MemoryForm.NODE
    if default.bytes_per_gpu is not None and request.resources.gpus:
        return MemoryForm.NODE  # job steps share memory per node, as they share the default
    return MemoryForm.NODE if default.bytes_per_core is None else MemoryForm.CORE


def held_where_it_was(request: Request) -> int | None:
    """Return the bytes per node that the job gets if Berth leaves it alone; None: memory is
    unlimited.

    A request per core counts for all cores that the job gets.
    """
    asked, default = request.resources, request.default_memory
    memory, cores = asked.memory_bytes_per_node, _cores_where_it_was(request)
    if memory is not None or default is None:
        by_core = bytes_per_core_where_it_was(request)
        if memory is None or by_core is None or cores == own_cores_per_node(asked):
            return memory
        return by_core * cores
    if request.needs.all_memory:
        return default.node_bytes
    if default.bytes_per_gpu is not None and asked.gpus:
        return default.bytes_per_gpu * -(-asked.gpus // max(1, asked.nodes))
    if default.bytes_per_core is not None:
        return default.bytes_per_core * cores
    return default.bytes_per_node or default.node_bytes


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
    return -(-tasks // nodes) * max(1, resources.cpus_per_task)


def with_memory(
    request: Request, candidate: Candidate, held: Resources, predicted: Interval | None
) -> Resources | str:
    """Return ``held`` with the memory that the job must request, or why no node has that much.

    ``held`` is the translated request. ``predicted`` is the host memory of the whole job, in bytes;
    None: unknown.
    """
    asked = request.resources.memory_bytes_per_node
    before = held_where_it_was(request)
    if before is None:
        return held
    total = before * _nodes_where_it_was(request)
    by_core = memory_form(request) is MemoryForm.CORE
    all_memory = asked is None and request.needs.all_memory
    if by_core and not all_memory:
        memory = _by_core(request, candidate, held, total)
    else:
        memory = max(before, -(-total // held.nodes))
    problem = _lacks_memory(request, candidate, held, memory)
    if problem is not None:
        return problem
    if all_memory:
        return held  # ``--mem=0`` stays as the user wrote it
    if asked is None and predicted is not None and predicted.high > memory * held.nodes:
        # Where no node has that much, the constraint ``memory_fits`` excludes the candidate.
        memory = _in_mib(predicted.high / held.nodes)
        if by_core:
            cores = own_cores_per_node(held)
            memory = _in_mib(memory / cores) * cores
    return replace(held, memory_bytes_per_node=memory)


def _lacks_memory(
    request: Request, candidate: Candidate, held: Resources, memory: int
) -> str | None:
    own, capacity = own_cores_per_node(held), candidate.memory_bytes_per_node
    if capacity is None:
        return None
    if memory > capacity:
        needed, there = f"{memory / 2**30:.0f} GiB", f"{capacity / 2**30:.0f} GiB"
        if request.resources.memory_bytes_per_node is not None:
            return f"you asked for {needed} a node and a node has {there}"
        return f"it holds {needed} a node if it is left alone, and a node here has {there}"
    whole = request.needs.exclusive or request.needs.min_cores_per_node > own
    by_core = memory_form(request) is MemoryForm.CORE
    if by_core and whole and memory // own * candidate.cores_per_node > capacity:
        return "the memory by core, on all cores of a node, is more than a node has"
    return None


def _nodes_where_it_was(request: Request) -> int:
    asked, default, needs = request.resources, request.default_memory, request.needs
    tasks, per_node = max(1, asked.tasks), needs.tasks_per_node
    least = max(1, asked.nodes, 1 if per_node is None else -(-tasks // per_node))
    if default is None or default.most_node_cores is None:
        return least
    by_gpu = asked.memory_bytes_per_node is None and default.bytes_per_gpu is not None
    if memory_form(request) is not MemoryForm.NODE or (
        by_gpu and asked.gpus and not needs.all_memory
    ):
        return least  # memory per core or per GPU has the same total on any number of nodes
    tasks_per_node = max(1, default.most_node_cores // max(1, asked.cpus_per_task))
    return max(least, -(-tasks // tasks_per_node))


def _cores_where_it_was(request: Request) -> int:
    """Return the cores per node that memory per core is multiplied by in the original queue."""
    default, cores = request.default_memory, own_cores_per_node(request.resources)
    if request.resources.memory_bytes_per_node is None:  # else counted on each candidate
        cores = max(cores, request.needs.min_cores_per_node)
    if default is None:
        return cores
    if request.needs.exclusive or default.whole_nodes:
        cores = max(cores, default.node_cores)
    return -(-cores // default.cores_given_by) * default.cores_given_by


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


def _in_mib(memory_bytes: float) -> int:
    return math.ceil(memory_bytes / _MIB) * _MIB
