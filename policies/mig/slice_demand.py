"""From a recommendation to what the planner takes."""

from __future__ import annotations

from collections.abc import Sequence

from berth.pilot.errors import UsageError
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.recommend import Recommendation


def demand(
    made: Recommendation, *, runtime_s: float | None = None, count: int = 1, priority: int = 0
) -> Demand:
    """For the planner: the slices that may be chosen, with predicted throughput and run time.

    Throughput is relative to the whole GPU; ``runtime_s`` is the job's on the whole GPU (default:
    as the workload's amount says), and energy is given with it where it is known. Raises
    UsageError where no slice may be chosen.
    """
    return demand_on([made], runtime_s=runtime_s, count=count, priority=priority)


def demand_on(
    made: Sequence[Recommendation],
    *,
    runtime_s: float | None = None,
    count: int = 1,
    priority: int = 0,
) -> Demand:
    """The same of one workload on slices of several GPU models; at least one of them."""
    options = tuple(option for one in made for option in _options(one, runtime_s))
    if not options:
        why = "; ".join(f"{one.gpu}: {one.reason}" for one in made)
        raise UsageError(f"no slice is good for {made[0].workload} ({why})")
    return Demand(made[0].workload, options, count, priority).check()


def _options(made: Recommendation, runtime_s: float | None) -> tuple[SliceOption, ...]:
    allowed = [c for c in made.choices if c.refused is None]
    found = []
    for choice in allowed:
        on = choice.prediction
        whole_s = on.time_s.mid / on.slowdown.mid
        units = made.units if runtime_s is None else runtime_s / whole_s
        found.append(
            SliceOption(
                profile=choice.profile.name,
                gpu=made.gpu,
                throughput=1 / on.slowdown.mid,
                runtime_s=None if units is None else on.time_s.mid * units,
                energy_j=None if units is None or on.energy_j is None else on.energy_j.mid * units,
            )
        )
    return tuple(found)
