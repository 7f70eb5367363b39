"""What a plan is good for: the objectives, in order, the first deciding before the second."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from enum import StrEnum

from berth.pilot.errors import UsageError


class Objective(StrEnum):
    """One thing to optimise; lists of them are lexicographic."""

    JOBS = "jobs"
    """Most jobs placed, those of higher priority first."""
    THROUGHPUT = "throughput"
    """Largest sum of predicted throughput."""
    MAKESPAN = "makespan"
    """Earliest end of the last placed job."""
    ENERGY = "energy"
    """Least energy of the placed jobs."""
    GPUS = "gpus"
    """Fewest GPUs with work on them."""
    RECUTS = "recuts"
    """Fewest instances destroyed and created."""


COSTS = (Objective.MAKESPAN, Objective.ENERGY, Objective.GPUS, Objective.RECUTS)
"""To be made small; alone, placing nothing would be best."""


def ordered(names: Sequence[str] | str) -> tuple[Objective, ...]:
    """The full order from what somebody asked for, for example ``"jobs,throughput"``.

    A cost in front gets ``jobs`` before it; ``jobs`` and ``recuts`` go last where not named.
    Raises UsageError naming the unknown or doubled objective.
    """
    words = names.split(",") if isinstance(names, str) else list(names)
    order: list[Objective] = []
    for word in (w.strip() for w in words):
        known = [o.value for o in Objective]
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"{word!r} is not an objective", hint=hint)
        if Objective(word) in order:
            raise UsageError(f"the objective {word!r} is named twice")
        order.append(Objective(word))
    if not order:
        raise UsageError("no objective is given", hint="for example: jobs,throughput")
    if order[0] in COSTS and Objective.JOBS not in order:
        order.insert(0, Objective.JOBS)
    if order[0] in COSTS:
        raise UsageError(
            f"{order[0].value} before jobs would place nothing",
            hint=f"write jobs,{','.join(o.value for o in order if o is not Objective.JOBS)}",
        )
    for last in (Objective.JOBS, Objective.RECUTS):
        if last not in order:
            order.append(last)
    return tuple(order)
