"""When a new plan is worth carrying out: not too soon after the last, and not for too little."""

from __future__ import annotations

from dataclasses import dataclass

from berth.pilot.units import format_seconds
from berth.policies.mig.objectives import COSTS, Objective
from berth.policies.mig.plan import Plan


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """The site's patience."""

    min_dwell_s: float = 600.0
    """A layout stays at least so long."""
    min_gain: float = 0.05
    """Least relative improvement of the first objective that improves."""

    def __post_init__(self) -> None:
        if not (self.min_dwell_s >= 0 and self.min_gain >= 0):
            raise ValueError("dwell time and gain must not be negative")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to re-cut, the gain, and the sentence for the log."""

    recut: bool
    gain: float
    reason: str


def gain(new: Plan, stay: Plan) -> tuple[float, Objective | None]:
    """Relative improvement of ``new`` over leaving the layouts as they are (``recut=False``).

    Of the first objective on which they differ; negative where it gets worse, infinite from
    nothing. Re-cuts are the price, not a gain. Both plans must have the same order.
    """
    for ours, theirs in zip(new.reached, stay.reached, strict=True):
        if ours.objective is Objective.RECUTS or ours.value == theirs.value:
            continue
        change = ours.value - theirs.value
        if ours.objective in COSTS:
            change = -change
        base = abs(theirs.value)
        return (change / base if base else float("inf") * change, ours.objective)
    return 0.0, None


def worth_recutting(
    new: Plan, stay: Plan, rules: Hysteresis, *, now_s: float, last_recut_s: float | None
) -> Verdict:
    """Whether to carry ``new`` out now, given when the layouts were last changed (Unix time).

    A change that lies further ahead than the dwell time was noted by a clock that was wrong.
    """
    improvement, objective = gain(new, stay)
    if not new.recuts:
        return Verdict(False, improvement, "the layouts already fit")
    if last_recut_s is not None and abs(now_s - last_recut_s) < rules.min_dwell_s:
        left = format_seconds(rules.min_dwell_s - abs(now_s - last_recut_s))
        return Verdict(False, improvement, f"the layouts were changed just now; wait {left}")
    if objective is None or improvement < rules.min_gain or improvement <= 0:
        what = f"{100 * improvement:.3g} % more {objective.value}" if objective else "nothing"
        return Verdict(
            False, improvement, f"it would gain {what}, less than {100 * rules.min_gain:.3g} %"
        )
    percent = "from none" if improvement == float("inf") else f"{100 * improvement:.3g} %"
    return Verdict(True, improvement, f"{objective.value} improves by {percent}")
