"""From the resources that were asked to those of a candidate, by the rules of the site file.

A job asked in one partition's terms (32 MPI tasks on CPU nodes) is another job in another's
(one GPU with 8 cores). What cannot be translated is a sentence, not an exception: it becomes
the reason why the candidate is ruled out.
"""

from __future__ import annotations

from berth.policies.values import Candidate, Request, Resources

_MIB = 2**20


def translate(request: Request, candidate: Candidate) -> Resources | str:
    """The request in the candidate's resources, or the sentence that says why it has no such.

    Memory is left out: ``with_memory`` adds it.
    """
    if candidate.is_gpu:
        return _on_gpus(request, candidate)
    return _on_cores(request, candidate)


def _on_cores(request: Request, candidate: Candidate) -> Resources | str:
    asked, rule = request.resources, candidate.translation
    tasks, cpus = max(1, asked.tasks), max(1, asked.cpus_per_task)
    if rule.max_cores is not None and tasks * cpus > rule.max_cores:
        if tasks == 1:
            cpus = rule.max_cores
        else:
            tasks = rule.max_cores // cpus
        if tasks < 1:
            return f"one task needs {cpus} cores and the site allows {rule.max_cores} here"
    tasks_per_node = candidate.cores_per_node // cpus
    if tasks_per_node < 1:
        return f"one task needs {cpus} cores and a node has {candidate.cores_per_node}"
    return _spread(request, candidate, Resources(_ceil(tasks, tasks_per_node), tasks, cpus))


def _on_gpus(request: Request, candidate: Candidate) -> Resources | str:
    asked, rule = request.resources, candidate.translation
    tasks, cpus = max(1, asked.tasks), max(1, asked.cpus_per_task)
    if asked.gpus > 0:
        gpus = asked.gpus
    else:
        gpus = max(1, rule.gpus)
        if rule.tasks_per_gpu is not None:
            gpus = max(gpus, _ceil(tasks, rule.tasks_per_gpu))
        if not rule.keep_tasks:
            tasks, cpus = gpus, rule.cpus_per_gpu or 1
        elif rule.cpus_per_gpu is not None:
            cpus = max(1, gpus * rule.cpus_per_gpu // tasks)
    if rule.max_cores is not None and tasks * cpus > rule.max_cores:
        cpus = rule.max_cores // tasks
        if cpus < 1:
            return f"{tasks} tasks need {tasks} cores and the site allows {rule.max_cores} here"
    tasks_per_node = candidate.cores_per_node // cpus
    if tasks_per_node < 1:
        return f"one task needs {cpus} cores and a node has {candidate.cores_per_node}"
    nodes = max(_ceil(gpus, candidate.gpus_per_node), _ceil(tasks, tasks_per_node))
    return _spread(request, candidate, Resources(nodes, tasks, cpus, gpus))


def _spread(request: Request, candidate: Candidate, held: Resources) -> Resources | str:
    """On the nodes it takes, within the user's own choice and the site's and candidate's bounds.

    ``held.nodes`` is the fewest nodes that the tasks, cores and GPUs fit on.
    """
    problem = _layout_problem(request, candidate, held)
    if problem is not None:
        return problem
    nodes = _nodes(request, held)
    problem = _too_many_nodes(request, candidate, nodes, held.gpus)
    if problem is not None:
        return problem
    return Resources(nodes, held.tasks, held.cpus_per_task, held.gpus)


def with_memory(request: Request, candidate: Candidate, held: Resources) -> Resources | str:
    """``held``, as translated, with the memory that is asked, or why no node has as much."""
    asked = request.resources.memory_bytes_per_node
    if asked is None or not candidate.translation.keep_memory:
        return held
    memory = _memory(request, candidate, held, asked)
    return memory if isinstance(memory, str) else held.with_memory(memory)


def _too_many_nodes(request: Request, candidate: Candidate, nodes: int, gpus: int) -> str | None:
    asked, limit = request.resources.nodes, candidate.translation.max_nodes
    if "nodes" in request.pinned and 0 < asked < nodes:
        return f"it needs {nodes} nodes here and you asked for {asked}"
    if limit is not None and nodes > limit:
        return f"it needs {nodes} nodes and the site allows {limit} here"
    if candidate.nodes is not None and nodes > candidate.nodes:
        return f"it needs {nodes} nodes and there are {candidate.nodes}"
    if gpus and gpus < nodes:
        return f"it takes {nodes} nodes, which is more than its {gpus} GPUs"
    return None


def _nodes(request: Request, held: Resources) -> int:
    """Nodes by what fits, by tasks per node, and by what the user wrote."""
    nodes, asked, needs = held.nodes, request.resources, request.needs
    if needs.tasks_per_node is not None and held.tasks == max(1, asked.tasks):
        nodes = max(nodes, _ceil(held.tasks, needs.tasks_per_node))
    moves_to_gpu = held.gpus > 0 and asked.gpus == 0
    if ("nodes" in request.pinned and asked.nodes > 0) or not moves_to_gpu:
        nodes = max(nodes, asked.nodes)
    return nodes


def _layout_problem(request: Request, candidate: Candidate, held: Resources) -> str | None:
    """What the user wrote about cores of a node or of a GPU, and a node here has not."""
    needs, cores = request.needs, candidate.cores_per_node
    asked = request.resources
    unchanged = (held.tasks, held.cpus_per_task) == (
        max(1, asked.tasks),
        max(1, asked.cpus_per_task),
    )
    # Slurm wants nodes on which so many tasks fit, whether or not there are so many.
    wanted = (needs.tasks_per_node or 0) * held.cpus_per_task if unchanged else 0
    if wanted > cores:
        return f"your tasks per node take {wanted} cores and a node has {cores}"
    if needs.min_cores_per_node > cores:
        return f"you asked for nodes with {needs.min_cores_per_node} cores and a node has {cores}"
    if needs.cores_per_gpu * _ceil(held.gpus, max(1, held.nodes)) > cores:
        return f"{needs.cores_per_gpu} cores a GPU are more than a node has"
    return None


def _memory(request: Request, candidate: Candidate, held: Resources, asked: int) -> int | str:
    """Bytes a node: the memory in all stays, shared by the nodes; by core where so asked."""
    capacity, needs = candidate.memory_bytes_per_node, request.needs
    memory = _ceil(asked * max(1, request.resources.nodes), held.nodes)
    if needs.memory_per_core:
        cores = _ceil(held.tasks, held.nodes) * held.cpus_per_task
        per_core = _ceil(memory, cores * _MIB) * _MIB
        memory = per_core * cores
        whole = needs.exclusive or needs.min_cores_per_node > cores
        if whole and capacity is not None and per_core * candidate.cores_per_node > capacity:
            return "the memory by core, on all cores of a node, is more than a node has"
    if capacity is not None and memory > capacity:
        return (
            f"you asked for {memory / 2**30:.0f} GiB a node and a node has "
            f"{capacity / 2**30:.0f} GiB"
        )
    return memory


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
