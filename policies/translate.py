"""Translate requested resources into a candidate's resources, by the rules of the site file.

The number of tasks and the cores per task are kept, because a script may name them anywhere (``srun
-n 8``). They change (for example from 32 MPI tasks to one task with a GPU and 8 cores) only where
the site or the workload says that the script uses whatever it is given. If a translation is
impossible, the result is a sentence instead of an exception: it becomes the reason that excludes
the candidate.
"""

from __future__ import annotations

from berth.policies.values import Candidate, Request, Resources


def translate(request: Request, candidate: Candidate) -> Resources | str:
    """Return the request in the candidate's resources, or a sentence on why translation is
    impossible.

    The result has no memory: ``policies.memory`` adds it.
    """
    if candidate.is_gpu:
        return _on_gpus(request, candidate)
    return _on_cores(request, candidate)


def keeps_shape(request: Request, candidate: Candidate) -> bool:
    """Return whether the number of tasks and the cores per task must stay as requested."""
    rule = candidate.translation.keep_tasks
    if request.keeps_shape or rule is None:
        return request.keeps_shape or not request.follows_shape
    return rule


def _on_cores(request: Request, candidate: Candidate) -> Resources | str:
    tasks, cpus = asked_shape(request)
    most = candidate.translation.max_cores
    if most is not None and tasks * cpus > most:
        if keeps_shape(request, candidate) or cpus > most:
            return _more_than_allowed(tasks, cpus, most)
        tasks = most // cpus
    tasks_per_node = candidate.cores_per_node // cpus
    if tasks_per_node < 1:
        return f"one task needs {cpus} cores and a node has {candidate.cores_per_node}"
    return _spread(request, candidate, Resources(_ceil(tasks, tasks_per_node), tasks, cpus))


def _on_gpus(request: Request, candidate: Candidate) -> Resources | str:
    asked, rule = request.resources, candidate.translation
    tasks, cpus = asked_shape(request)
    gpus = asked.gpus
    if gpus == 0:
        gpus = max(1, rule.gpus)
        if rule.tasks_per_gpu is not None:
            gpus = max(gpus, _ceil(tasks, rule.tasks_per_gpu))
        if not keeps_shape(request, candidate):
            tasks, cpus = gpus, max(cpus, rule.cpus_per_gpu or 1)
    if rule.max_cores is not None and tasks * cpus > rule.max_cores:
        return _more_than_allowed(tasks, cpus, rule.max_cores)
    tasks_per_node = candidate.cores_per_node // cpus
    if tasks_per_node < 1:
        return f"one task needs {cpus} cores and a node has {candidate.cores_per_node}"
    nodes = max(_ceil(gpus, candidate.gpus_per_node), _ceil(tasks, tasks_per_node))
    return _spread(request, candidate, Resources(nodes, tasks, cpus, gpus))


def asked_shape(request: Request) -> tuple[int, int]:
    """Return the requested number of tasks and the cores per task, each at least 1."""
    return max(1, request.resources.tasks), max(1, request.resources.cpus_per_task)


def _more_than_allowed(tasks: int, cpus: int, most: int) -> str:
    needed = f"one task needs {cpus} cores"
    if tasks > 1:
        needed = f"{tasks} tasks need {tasks * cpus} cores"
    return f"{needed} and the site allows {most} here"


def _spread(request: Request, candidate: Candidate, held: Resources) -> Resources | str:
    """Return ``held`` with its number of nodes, or the sentence that says which limit the job
    exceeds.

    ``held.nodes`` is the fewest nodes that the tasks, cores and GPUs fit on; the user's choice and
    the limits of the site and the candidate apply.
    """
    problem = _layout_problem(request, candidate, held)
    if problem is not None:
        return problem
    nodes = _nodes(request, candidate, held)
    problem = _too_many_nodes(request, candidate, nodes, held.gpus)
    if problem is not None:
        return problem
    return Resources(nodes, held.tasks, held.cpus_per_task, held.gpus)


def _too_many_nodes(request: Request, candidate: Candidate, nodes: int, gpus: int) -> str | None:
    asked, limit = request.resources.nodes, candidate.translation.max_nodes
    if nodes > 1 and _fits_one_node_of_its_own(request, candidate):
        return f"it fits on one node of its own queue and would take {nodes} here"
    most = request.needs.max_nodes if asked <= request.needs.max_nodes else 0
    if "nodes" in request.pinned and 0 < asked < nodes:
        most = asked
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


def _fits_one_node_of_its_own(request: Request, candidate: Candidate) -> bool:
    """Return whether the job, if Berth leaves it alone, fits on one node of its own queue."""
    own, asked = request.own, request.resources
    if own is None or asked.nodes > 1 or request.needs.tasks_per_node is not None:
        return False
    least = 1 if own.default_memory is None else own.default_memory.node_cores
    return keeps_shape(request, candidate) and asked.cores <= max(own.cores_per_node, least)


def _nodes(request: Request, candidate: Candidate, held: Resources) -> int:
    """Return the job's number of nodes: the largest of the numbers that its cores and GPUs, its
    tasks per node and the user's request need.
    """
    nodes, asked, needs = held.nodes, request.resources, request.needs
    if needs.tasks_per_node is not None and held.tasks == max(1, asked.tasks):
        nodes = max(nodes, _ceil(held.tasks, needs.tasks_per_node))
    becomes_another = held.gpus > asked.gpus and not keeps_shape(request, candidate)
    if "nodes" in request.pinned or not becomes_another:
        nodes = max(nodes, asked.nodes)
    return nodes


def _layout_problem(request: Request, candidate: Candidate, held: Resources) -> str | None:
    """Return the requested cores per node or per GPU that no node has, as a sentence; None:
    nodes have them.
    """
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
    if needs.cores_per_gpu * _ceil(held.gpus, max(1, held.nodes)) > cores:
        return f"{needs.cores_per_gpu} cores a GPU are more than a node has"
    return None


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
