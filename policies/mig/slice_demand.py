"""From a recommendation to what the planner takes."""

from __future__ import annotations

from berth.pilot.errors import UsageError
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.recommend import Recommendation, SliceChoice


def demand(
    made: Recommendation, *, runtime_s: float | None = None, count: int = 1, priority: int = 0
) -> Demand:
    """For the planner: the slices that may be chosen, with predicted throughput and run time.

    Throughput is relative to the whole GPU; ``runtime_s`` is the job's on the whole GPU, and
    energy is given with it where it is known. Raises UsageError where no slice may be chosen.
    """
    options = tuple(
        SliceOption(
            profile=c.profile.name,
            gpu=made.gpu,
            throughput=1 / c.prediction.slowdown.mid,
            runtime_s=None if runtime_s is None else runtime_s * c.prediction.slowdown.mid,
            energy_j=_of_job(c, runtime_s),
        )
        for c in made.choices
        if c.refused is None
    )
    if not options:
        raise UsageError(f"no slice of {made.gpu} is good for {made.workload}: {made.reason}")
    return Demand(made.workload, options, count, priority).check()


def _of_job(choice: SliceChoice, runtime_s: float | None) -> float | None:
    if runtime_s is None or choice.energy_j is None:
        return None
    whole_s = choice.prediction.step_s.mid / choice.prediction.slowdown.mid
    return choice.energy_j.mid * runtime_s / whole_s
