"""From the resources that were asked to those of a candidate, by the rules of the site file.

A job asked in one partition's terms (32 MPI tasks on CPU nodes) is another job in another's
(one GPU with 8 cores). What cannot be translated is a sentence, not an exception: it becomes
the reason why the candidate is ruled out.
"""

from __future__ import annotations

from berth.policies.values import Candidate, Request, Resources


def translate(request: Request, candidate: Candidate) -> Resources | str:
    """The request in the candidate's resources, or the sentence that says why it has no such."""
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
    nodes, tasks, cpus, gpus = held.nodes, held.tasks, held.cpus_per_task, held.gpus
    asked = request.resources
    moves_to_gpu = gpus > 0 and asked.gpus == 0
    if "nodes" in request.pinned and asked.nodes > 0:
        if nodes > asked.nodes:
            return f"it needs {nodes} nodes here and you asked for {asked.nodes}"
        nodes = asked.nodes
    elif not moves_to_gpu:
        nodes = max(nodes, asked.nodes)
    limit = candidate.translation.max_nodes
    if limit is not None and nodes > limit:
        return f"it needs {nodes} nodes and the site allows {limit} here"
    if candidate.nodes is not None and nodes > candidate.nodes:
        return f"it needs {nodes} nodes and there are {candidate.nodes}"
    if gpus and gpus < nodes:
        return f"it takes {nodes} nodes, which is more than its {gpus} GPUs"
    memory = asked.memory_bytes_per_node
    if memory is not None and candidate.translation.keep_memory:
        memory = _ceil(memory * max(1, asked.nodes), nodes)
        capacity = candidate.memory_bytes_per_node
        if capacity is not None and memory > capacity:
            return (
                f"you asked for {memory / 2**30:.0f} GiB a node and a node has "
                f"{capacity / 2**30:.0f} GiB"
            )
    return Resources(nodes, tasks, cpus, gpus, memory)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
