"""Submissions of one application, one after the other; each finished job tells the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.learning.cells import Run
from berth.predictor.learning.components import Components, phase
from berth.predictor.learning.drift import OnlineLevel
from berth.predictor.learning.widths import Held, HeldOfProgram
from lab.site.strategies import TO_LEARN, Strategy
from lab.site.world import World

SUBMISSIONS = 20
PHASES = (("1", 0, 1), ("2 to 5", 1, 5), ("6 to 20", 5, 20))
"""Title, first submission, end."""


@dataclass(frozen=True, slots=True)
class Step:
    """One submission of one order of one application."""

    application: str
    order: int
    number: int
    """0 is the first."""
    log_regret: float
    """Of the device's usual time over the best device's."""
    score: float
    """Of the time that it took: deviations from what was expected there."""
    to_learn: bool = False
    """It was sent where most is learnt."""


def simulate(
    world: World, strategy: Strategy, *, orders: int, seed: int, submissions: int = SUBMISSIONS
) -> list[Step]:
    """``orders`` random orders of rows, each learnt from the beginning."""
    found = []
    for order in range(orders):
        rng = np.random.default_rng([seed, order])
        draws = np.random.default_rng([seed, order, 1])
        runs: list[Run] = []
        for number in range(submissions):
            row = int(rng.integers(len(world.rows)))
            noise = rng.standard_normal(len(world.places))
            chosen = strategy.choose(world, row, runs, draws)
            device = chosen.device
            usual = world.log_seconds[row]
            took = float(usual[device] + world.noise[row, device] * noise[device])
            residual = took - float(world.log_forecast[row, device])
            job = TO_LEARN if chosen.to_learn else ""
            runs.append(Run(world.cell(row, device), residual, job=job))
            found.append(
                Step(
                    world.application, order, number, float(usual[device] - usual.min()),
                    (took - chosen.mean) / chosen.deviation,
                    chosen.to_learn,
                )
            )  # fmt: skip
    return found


def held(steps: Sequence[Step]) -> Held:
    """What other programs of the site learn from these; scores of widths without factors."""
    found = dict[str, HeldOfProgram]()
    for step in steps:
        found.setdefault(step.application, HeldOfProgram()).add(step.number, step.score)
    return sum(found.values(), Held())


def as_at_site(steps: Sequence[Step], given: Components, interval: Sequence[float]) -> list[Step]:
    """The same choices, with the widths that a site learns: factors by phase (``interval``, in
    place of ``given``'s own), and the program's online level."""
    found: list[Step] = []
    level = OnlineLevel()
    for step in steps:
        if step.number == 0:
            level = OnlineLevel()
        score = step.score * given.factor(step.number) / interval[phase(step.number)]
        found.append(replace(step, score=score / level.factor))
        level.add(score)
    return found


def regret(steps: Sequence[Step], first: int, end: int) -> float:
    """Geometric mean over a phase; applications weigh the same."""
    return float(np.exp(np.mean(list(_by_application(steps, first, end, _log_regret).values()))))


def coverage(steps: Sequence[Step], first: int, end: int, half_width: float) -> float:
    """Share of times within ``half_width`` deviations; applications weigh the same."""
    inside = _by_application(steps, first, end, lambda s: float(abs(s.score) <= half_width))
    return float(np.mean(list(inside.values())))


def half_width(steps: Sequence[Step], first: int, end: int, level: float = 0.9) -> float:
    """Deviations within which ``level`` of times are; applications weigh the same."""
    chosen = [s for s in steps if first <= s.number < end]
    counts = {a: sum(s.application == a for s in chosen) for a in {s.application for s in chosen}}
    ordered = sorted(chosen, key=lambda s: abs(s.score))
    wanted, reached = level * len(counts), 0.0
    for step in ordered:
        reached += 1 / counts[step.application]
        if reached >= wanted - 1e-9:
            return abs(step.score)
    return abs(ordered[-1].score)


def _log_regret(step: Step) -> float:
    return step.log_regret


def _by_application(
    steps: Sequence[Step], first: int, end: int, value: Callable[[Step], float]
) -> dict[str, float]:
    chosen = [s for s in steps if first <= s.number < end]
    names = sorted({s.application for s in chosen})
    return {a: float(np.mean([value(s) for s in chosen if s.application == a])) for a in names}
