"""A site that learns: unseen applications arrive one after another, by the posterior that ships.

Each submission of an application goes where the least time is expected; each finished job tells
the next. ``--train`` fits what the posterior assumes (``components.json``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from berth.pilot.documents import write_text
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.learning.cells import Components, RunResidual, phase
from berth.predictor.learning.posterior import Posterior
from berth.predictor.learning.surprises import (
    CoverageGrid,
    OnlineLevel,
    ProgramCoverage,
    interval_factors,
)
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.resume import Resume
from lab.relative.data import AIWC_DATA
from lab.site.fit_components import SHARES, fit_components
from lab.site.worlds import World, arrivals

SUBMISSIONS = 20
PHASES = (("1", 0, 1), ("2 to 5", 1, 5), ("6 to 20", 5, 20))
"""Title, first submission, end."""
ORDERS = 10
CALIBRATION_ORDERS = 2
_FITS = 45
SPLIT = (
    f"each application in turn unseen, {SUBMISSIONS} submissions of random rows (kernel and size) "
    f"with replacement in {ORDERS} random orders; evidence only from the device that a job was "
    "sent to, with the measured noise between runs. Forecasts, their deviations, the shares of "
    "their error and the factors of intervals come from the other applications. The cost model's "
    "terms were chosen on these folds: expect 1.16 to 1.17 for a first submission elsewhere"
)
SHIPS = "cost model, posterior"
SITE_WIDTHS = f"{SHIPS}, widths of the site"


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a submission goes."""

    device: int
    mean: float
    """Log seconds expected there."""
    deviation: float
    """Of those."""


class Strategy(Protocol):
    """Chooses a device for each submission, knowing only what earlier jobs took."""

    @property
    def name(self) -> str:
        """Return the name in tables."""
        ...

    def choose(self, world: World, row: int, runs: Sequence[RunResidual]) -> Choice:
        """Return the device, and what is expected of it."""
        ...


@dataclass(frozen=True, slots=True)
class Learning:
    """The posterior that ships: the device of the least expected time."""

    parts: Components
    name: str = SHIPS

    def choose(self, world: World, row: int, runs: Sequence[RunResidual]) -> Choice:
        """Choose by the posterior of all finished jobs of the application."""
        expected = Posterior(runs, self.parts).expected(world.cells(row))
        mean = world.log_forecast[row] + expected.mean
        picked = int(np.argmin(mean))
        deviation = float(expected.deviation[picked]) * self.parts.factor(len(runs))
        return Choice(picked, float(mean[picked]), deviation)


@dataclass(frozen=True, slots=True)
class Fixed:
    """The forecast without learning: the device of the least forecast time."""

    name: str = "cost model, no learning"

    def choose(self, world: World, row: int, runs: Sequence[RunResidual]) -> Choice:
        """Choose the least forecast time; no job changes it."""
        picked = int(np.argmin(world.log_forecast[row]))
        forecast, deviation = world.log_forecast[row], world.deviation[row]
        return Choice(picked, float(forecast[picked]), float(deviation[picked]))


def train(options: Options) -> str:
    """Return the components that ship: of all applications."""
    found = arrivals(options.seed, Resume(options.unfinished))
    worlds = [one.world for one in found]
    parts = calibrated(fit_components(worlds), worlds, options.seed)
    text = json.dumps({name: getattr(parts, name) for name in (*SHARES, "length", "interval")})
    write_text(options.bundle / "components.json", text)
    return text


def evaluate(options: Options) -> Report:
    """Report regret and coverage with and without learning, on every application of AIWC."""
    with step_bar("cost models", _FITS) as advance:
        arriving = arrivals(options.seed, Resume(options.unfinished), advance)
    steps: dict[str, list[Step]] = {}
    shares: dict[str, dict[str, float]] = {}
    with step_bar("arriving", len(arriving)) as advance:
        for one in arriving:
            parts = calibrated(fit_components(one.others), one.others, options.seed)
            shares[one.world.application] = {share: getattr(parts, share) for share in SHARES}
            for strategy in (Fixed(), Learning(parts)):
                made = simulate(one.world, strategy, orders=ORDERS, seed=options.seed)
                steps.setdefault(strategy.name, []).extend(made)
            widths = learnt_widths(parts, one.others, options.seed)
            steps.setdefault(SITE_WIDTHS, []).extend(as_at_site(made, parts, widths))
            advance()
    return report_of(steps, shares)


def learnt_widths(parts: Components, worlds: Sequence[World], seed: int) -> tuple[float, ...]:
    """Return the factors on intervals that a site has learnt where ``worlds`` arrived before."""
    plain = replace(parts, interval=(1.0, 1.0, 1.0))
    made = [
        simulate(world, Learning(plain), orders=CALIBRATION_ORDERS, seed=seed) for world in worlds
    ]
    return interval_factors(held([step for steps in made for step in steps]), parts)


def calibrated(parts: Components, worlds: Sequence[World], seed: int) -> Components:
    """Return the components with the factors on intervals that make nine in ten hold where
    ``worlds`` arrive."""
    plain = replace(parts, interval=(1.0, 1.0, 1.0))
    made = [
        step
        for world in worlds
        for step in simulate(world, Learning(plain), orders=CALIBRATION_ORDERS, seed=seed)
    ]
    widths = [half_width(made, first, end) / NORMAL_90 for _, first, end in PHASES]
    return replace(parts, interval=(widths[0], widths[1], widths[2]))


def report_of(steps: dict[str, list[Step]], shares: dict[str, dict[str, float]]) -> Report:
    """Report regret and coverage by phase."""
    phases = [f"submission{'s' * (end - first > 1)} {title}" for title, first, end in PHASES]
    data = {
        name: {
            "regret": [regret(made, first, end) for _, first, end in PHASES],
            "coverage": [coverage(made, first, end, NORMAL_90) for _, first, end in PHASES],
        }
        for name, made in steps.items()
    }
    table = [
        (name, *(f"{v:.3f}" for v in one["regret"]), *(f"{v:.1%}" for v in one["coverage"]))
        for name, one in data.items()
    ]
    header = ("strategy", *phases, *(f"in 90 %, {title}" for title, _, _ in PHASES))
    return Report(
        "A site that learns from its finished jobs",
        (AIWC_DATA, SPLIT, "Regret: geometric mean of the chosen device's time over the best's."),
        (
            Section("Regret and coverage by phase", header, table),
        ),
        {"strategies": data, "shares": shares},
    )  # fmt: skip


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


def simulate(
    world: World, strategy: Strategy, *, orders: int, seed: int, submissions: int = SUBMISSIONS
) -> list[Step]:
    """``orders`` random orders of rows, each learnt from the beginning."""
    found = []
    for order in range(orders):
        rng = np.random.default_rng([seed, order])
        runs: list[RunResidual] = []
        for number in range(submissions):
            row = int(rng.integers(len(world.rows)))
            noise = rng.standard_normal(len(world.places))
            chosen = strategy.choose(world, row, runs)
            device = chosen.device
            usual = world.log_seconds[row]
            took = float(usual[device] + world.noise[row, device] * noise[device])
            residual = took - float(world.log_forecast[row, device])
            runs.append(RunResidual(world.cell(row, device), residual))
            found.append(
                Step(
                    world.application, order, number, float(usual[device] - usual.min()),
                    (took - chosen.mean) / chosen.deviation,
                )
            )  # fmt: skip
    return found


def held(steps: Sequence[Step]) -> CoverageGrid:
    """Return what other programs of the site learn from these; scores of widths without factors."""
    found = dict[str, ProgramCoverage]()
    for step in steps:
        found.setdefault(step.application, ProgramCoverage()).add(step.number, step.score)
    return sum(found.values(), CoverageGrid())


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
    """Return share of times within ``half_width`` deviations; applications weigh the same."""
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
