"""A job's expected wait and price on a candidate, and the objectives of time or of cost alone."""

from __future__ import annotations

from berth.policies.objectives.protocol import (
    NO_PRICE,
    JobEstimate,
    Objective,
    ScoreTerm,
    cost_terms,
    time_terms,
)
from berth.policies.values import Candidate, CandidateState, Resources


def price_per_hour(candidate: Candidate, resources: Resources) -> float | None:
    """Return the price per hour of the resources in the site's currency; None: no price is
    known.
    """
    gpu, core = candidate.price_per_gpu_hour, candidate.price_per_core_hour
    if gpu is None and core is None:
        return None
    return (gpu or 0.0) * resources.gpus + (core or 0.0) * resources.cores


def expected_wait_s(resources: Resources, runtime_s: float, state: CandidateState | None) -> float:
    """Return the expected queue wait in seconds; 0 where the job has room now.

    Otherwise the wait is looked up in the state's wait table. Without a table the wait is (pending
    jobs + 1) x this job's run time. This estimate is crude: it only ranks full partitions by their
    number of pending jobs.
    """
    if state is None:
        return 0.0
    if (
        not state.pending_jobs
        and state.idle_cores >= resources.tasks * resources.cpus_per_task
        and state.idle_gpus >= resources.gpus
    ):
        return 0.0
    if state.waits is not None:
        return state.waits.at(resources.gpus or resources.cores, runtime_s).mid
    return (state.pending_jobs + 1) * runtime_s


def wait_of(estimate: JobEstimate) -> float:
    """Return the expected wait in seconds; for an array, until ``makespan.at_once`` tasks can
    run.
    """
    if estimate.makespan is not None:
        return estimate.makespan.wait_s
    return expected_wait_s(estimate.resources, estimate.runtime_s.mid, estimate.state)


def length_of(estimate: JobEstimate) -> float:
    """Return the median predicted run time in seconds; for an array, the makespan without the
    wait.
    """
    return estimate.runtime_s.mid if estimate.makespan is None else estimate.makespan.length_s


class Fastest(Objective):
    """Choose the candidate with the smallest predicted run time + weight of waiting x expected
    wait.
    """

    name = "fastest"
    weights = ("wait",)
    superlative = "is predicted fastest"
    comparative = "faster"
    by_time = True

    def score(self, estimate: JobEstimate) -> float | None:
        """Return the predicted run time + weight of waiting x expected wait, in seconds."""
        return estimate.time_s

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the predicted run time and the weighted wait in seconds, for a person to read."""
        return time_terms(estimate)


class Earliest(Objective):
    """Choose the candidate with the smallest expected wait + predicted run time, in seconds."""

    name = "earliest"
    superlative = "is predicted to finish first"
    comparative = "sooner"
    by_time = True
    waits = True

    def score(self, estimate: JobEstimate) -> float | None:
        """Return the expected wait + predicted run time (of all tasks, for an array), in
        seconds.
        """
        return length_of(estimate) + wait_of(estimate)

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the predicted run time and the expected wait in seconds, for a person to read."""
        if estimate.makespan is not None:
            return time_terms(estimate)
        predicted = ScoreTerm("predicted time", estimate.runtime_s.mid, "s")
        return (predicted, ScoreTerm("expected wait", wait_of(estimate), "s"))


class Cheapest(Objective):
    """Choose the candidate with the least cost in the site's currency."""

    name = "cheapest"
    superlative = "is predicted cheapest"
    comparative = "cheaper"
    missing = NO_PRICE

    def score(self, estimate: JobEstimate) -> float | None:
        """Return the job's predicted cost in the site's currency; None: the site file gives no
        price.
        """
        return estimate.cost

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the predicted cost, for a person to read."""
        return cost_terms(estimate)
