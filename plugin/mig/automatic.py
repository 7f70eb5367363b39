"""Re-cutting by itself: plan for what waits, and carry it out where that is worth it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.settings import TriggerSettings
from berth.plugin.mig.target import Target
from berth.policies.mig import Instance
from berth.policies.mig.demands import Demand
from berth.policies.mig.plan import Hysteresis, Verdict, worth_recutting
from berth.policies.mig.planner import plan

TIME_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Thought:
    """Whether to re-cut now, why, and to what."""

    verdict: Verdict
    target: Target | None
    """None: nothing to do."""


def think(
    fleet: Fleet,
    held: Collection[tuple[str, Instance]],
    demands: Sequence[Demand],
    rules: TriggerSettings,
    *,
    now_s: float,
    last_cut_s: float | None,
) -> Thought:
    """Plan with and without re-cutting and compare. Pure but for the planner's clock.

    Raises UsageError where an objective needs predictions that the demands lack.
    """
    pairs = [(gpu, gpu.state(str(gpu.index), held=held)) for gpu in fleet]
    states = [state for _, state in pairs if state is not None]
    if not states or not demands:
        what = (
            "no GPU has MIG on" if not states else "nobody waits for a slice and none is expected"
        )
        return Thought(Verdict(False, 0.0, what), None)
    new = plan(states, demands, rules.objectives, time_limit_s=TIME_LIMIT_S)
    stay = plan(states, demands, rules.objectives, time_limit_s=TIME_LIMIT_S, recut=False)
    patience = Hysteresis(rules.min_dwell_s, rules.min_gain)
    verdict = worth_recutting(new, stay, patience, now_s=now_s, last_recut_s=last_cut_s)
    if not verdict.recut:
        return Thought(verdict, None)
    uuids = {str(gpu.index): gpu.uuid for gpu in fleet}
    changed = [g for g in new.gpus if g.recuts]
    return Thought(
        verdict,
        Target(
            {uuids[g.state.gpu]: g.target for g in changed},
            {uuids[g.state.gpu]: g.state.layout for g in changed},
            "the plan just made",
        ),
    )
