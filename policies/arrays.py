"""Makespan of a job array on a candidate, from the number of its tasks that run at the same time.

List scheduling starts each task as soon as another ends. The makespan is then
    ceil(n / w) rounds          where all tasks take equally long,
    <= t_max + (T - t_max) / w  else
(R. L. Graham, "Bounds for certain multiprocessing anomalies", 1966), with
    n      number of independent tasks
    w      tasks at the same time
    t_max  run time of the longest task, in seconds
    T      sum of the run times of all tasks, in seconds

Two values of w are assumed, and the earlier end counts: as many tasks as the idle resources hold,
starting with the first task; or, once the queue lets that many start, up to the array's share of
the whole candidate, which is divided equally among the waiting jobs. Jobs submitted later and the
distribution of idle cores over nodes are not modelled.
"""

from __future__ import annotations

from berth.policies.bounds import cores_on_node, holds, memory_on_node
from berth.policies.limits import Denied, Scope
from berth.policies.objectives.protocol import JobEstimate
from berth.policies.objectives.time_and_cost import expected_wait_s
from berth.policies.values import (
    UNBOUNDED,
    Candidate,
    CandidateState,
    Makespan,
    Request,
    Resources,
    TaskArray,
)
from berth.predictor.core.forecast import Forecast


def makespan(
    request: Request, array: TaskArray, estimate: JobEstimate, state: CandidateState | None
) -> Makespan:
    """Return the expected makespan of an array on a candidate; ``state`` None: the candidate is
    idle.
    """
    held, candidate, runtime_s = estimate.resources, estimate.candidate, estimate.runtime_s.mid
    whole = _whole(request, held, candidate, state)
    most = min(array.tasks, array.at_once or array.tasks, whole or array.tasks)
    most = max(1, _within_limits(most, request, held, candidate, state))
    if state is None:
        length_s = runtime_s * rounds(array.tasks, most, estimate.work)
        return Makespan(array.tasks, most, 0.0, length_s, estimate.work)
    sharers = state.pending_jobs + 1
    idle = max(1, min(most, _idle(request, held, candidate, state) // sharers))
    share = 0 if whole is None else max(1, min(most, whole // sharers))
    shortest: Makespan | None = None
    for at_once, wide in (
        (idle, 1),
        *((share >> n, share >> n) for n in range(share.bit_length())),
    ):
        wait_s = expected_wait_s(_times(held, wide), runtime_s, state)
        length_s = runtime_s * rounds(array.tasks, at_once, estimate.work)
        if shortest is None or wait_s + length_s < shortest.seconds:
            shortest = Makespan(array.tasks, at_once, wait_s, wait_s + length_s, estimate.work)
    assert shortest is not None  # noqa: S101 - what is idle is always looked at
    return shortest


def rounds(tasks: int, at_once: int, work: float) -> float:
    """Return the makespan in units of the longest task's run time.

    ``work``: sum of all run times divided by the longest; equal to ``tasks`` where all are equal.
    """
    return min(float(-(-tasks // at_once)), 1.0 + (work - 1.0) / at_once)


def work_of(array: TaskArray, forecast: Forecast, nodes: int) -> float:
    """Return the sum of the tasks' predicted times divided by the longest task's.

    The ratio is the same on all platforms: a forecast has one growth of time with problem size,
    and the time of starting kernels is left out.
    """
    if not array.sizes:
        return float(array.tasks)
    times = [(forecast.growth(size, nodes).time.mid, count) for size, count in array.sizes]
    longest = max(time for time, _ in times)
    if longest <= 0:
        return float(array.tasks)
    return max(1.0, sum(time * count for time, count in times) / longest)


def _whole(
    request: Request, held: Resources, candidate: Candidate, state: CandidateState | None
) -> int | None:
    """Return how many tasks fit on the whole candidate; None: its number of nodes is unknown."""
    nodes = candidate.nodes if state is None or state.usable_nodes is None else state.usable_nodes
    if nodes is None:
        return None
    if held.nodes > 1:
        return nodes // held.nodes
    bounds = UNBOUNDED if state is None else state.bounds
    parts = [(cores_on_node(request, held, candidate, bounds), candidate.cores_per_node)]
    if held.gpus:
        parts.append((held.gpus, candidate.gpus_per_node))
    if candidate.memory_bytes_per_node is not None:
        memory = memory_on_node(request, held, candidate, bounds)
        # Unknown: a job without a memory request may get all memory, or memory may not count.
        if held.memory_bytes_per_node is not None or memory < candidate.memory_bytes_per_node:
            parts.append((memory, candidate.memory_bytes_per_node))
    return nodes * min(there // max(1, part) for part, there in parts)


def _idle(request: Request, held: Resources, candidate: Candidate, state: CandidateState) -> int:
    """Return how many tasks fit on the candidate's idle cores and GPUs."""
    nodes = max(1, held.nodes)
    cores = max(held.cores, nodes * cores_on_node(request, held, candidate, state.bounds))
    by_cores = state.idle_cores // max(1, cores)
    return min(by_cores, state.idle_gpus // held.gpus) if held.gpus else by_cores


def _within_limits(
    most: int,
    request: Request,
    held: Resources,
    candidate: Candidate,
    state: CandidateState | None,
) -> int:
    """Return how many of ``most`` tasks the user's and account's limits allow at the same time."""
    if state is None or state.rights is None:
        return most
    limits = state.rights.limits(request.user, request.account, request.qos, candidate.queue)
    if isinstance(limits, Denied):
        return most  # another constraint rules the candidate out
    each = holds(request, held, candidate, state.bounds)
    allowed = float(most)
    for limit in limits:
        if limit.scope is Scope.RUNNING:
            allowed = min(allowed, limit.amount)
        elif limit.together and (part := each.get(limit.resource, 0.0)) > 0:
            allowed = min(allowed, limit.amount // part)
    return int(allowed)


def _times(held: Resources, count: int) -> Resources:
    """Return the resources of ``count`` tasks together."""
    if count == 1:
        return held
    return Resources(held.nodes * count, held.tasks * count, held.cpus_per_task, held.gpus * count)
