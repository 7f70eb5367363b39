"""Ways to choose a device for each submission, knowing only what earlier jobs of it took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from berth.policies.exploring import Allowance, place_to_learn
from berth.policies.settings import Explore, PolicySettings, Weights
from berth.policies.values import Candidate, Ranked, Request, Resources
from berth.predictor.core.intervals import NORMAL_90, around
from berth.predictor.core.prediction import Basis
from berth.predictor.learning.cells import Place, Run
from berth.predictor.learning.components import Components
from berth.predictor.learning.posterior import Posterior
from lab.site.world import World


class Choice(NamedTuple):
    """Where a submission goes."""

    device: int
    mean: float
    """Log seconds expected there."""
    deviation: float
    """Of those."""
    to_learn: bool = False
    """It is not where the least is expected."""


class Strategy(Protocol):
    """Chooses, and says what it expects."""

    @property
    def name(self) -> str:
        """In tables."""
        ...

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> Choice:
        """The device, and what is expected of it."""
        ...


@dataclass(frozen=True, slots=True)
class Learning:
    """The posterior that ships: the least expected time, or Thompson's draw."""

    name: str
    parts: Components
    thompson: bool = False

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> Choice:
        """By the posterior of all finished jobs of the application."""
        expected = Posterior(runs, self.parts).expected(world.cells(row))
        mean = world.log_forecast[row] + expected.mean
        judged = mean
        if self.thompson:
            judged = mean + expected.deviation * rng.standard_normal(len(mean))
        picked = int(np.argmin(judged))
        deviation = float(expected.deviation[picked]) * self.parts.factor(len(runs))
        return Choice(picked, float(mean[picked]), deviation)


@dataclass(frozen=True, slots=True)
class Fixed:
    """By the forecast without learning."""

    name: str

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> Choice:
        """The least forecast time."""
        picked = int(np.argmin(world.log_forecast[row]))
        forecast, deviation = world.log_forecast[row], world.deviation[row]
        return Choice(picked, float(forecast[picked]), float(deviation[picked]))


@dataclass(frozen=True, slots=True)
class EpsilonGreedy:
    """Means of what each device took over its forecast; one submission in ten at random."""

    name: str
    epsilon: float = 0.1

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> Choice:
        """A device that was not tried is as its forecast."""
        log_seconds = world.log_forecast[row].copy()
        for device, place in enumerate(world.places):
            seen = [run.log_residual for run in runs if run.cell.place == place]
            if seen:
                log_seconds[device] += float(np.mean(seen))
        picked = int(np.argmin(log_seconds))
        if rng.random() < self.epsilon:
            picked = int(rng.integers(len(world.places)))
        return Choice(picked, float(log_seconds[picked]), float(world.deviation[row, picked]))


@dataclass(frozen=True, slots=True)
class ToldAll:
    """As ``Learning``, but after each job it is given the times of all devices: a bound."""

    name: str
    parts: Components

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> Choice:
        """By the usual times of all devices for the rows of earlier jobs."""
        seen = [world.rows.index(run.cell.row) for run in runs]
        known = [
            Run(world.cell(one, device), float(world.log_residual[one, device]))
            for one in dict.fromkeys(seen)
            for device in range(len(world.places))
        ]
        expected = Posterior(known, self.parts).expected(world.cells(row))
        mean = world.log_forecast[row] + expected.mean
        picked = int(np.argmin(mean))
        return Choice(picked, float(mean[picked]), float(expected.deviation[picked]))


@dataclass(frozen=True, slots=True)
class Exploring:
    """``Learning``, with some submissions sent where most is learnt, as ``policy.explore`` does."""

    name: str
    parts: Components
    explore: Explore

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> Choice:
        """By the filter's own rule; the submissions before this one are the program's jobs."""
        expected = Posterior(runs, self.parts).expected(world.cells(row))
        mean = world.log_forecast[row] + expected.mean
        deviation = expected.deviation * self.parts.factor(len(runs))
        picked = int(np.argmin(mean))
        ran = {run.cell.place for run in runs if run.cell.row == world.rows[row]}
        fits = sorted(
            (_ranked(place, float(m), float(d), measured=place in ran)
             for place, m, d in zip(world.places, mean, deviation, strict=True)),
            key=lambda one: one.score or 0.0,
        )  # fmt: skip
        candidates = {p.platform: _candidate(p) for p in world.places}
        settings = PolicySettings(weights=Weights(wait=0.0), explore=self.explore)
        sent = sum(run.job == TO_LEARN for run in runs)
        allowance = Allowance(math.inf, len(runs), sent)
        found = place_to_learn(
            _ASKED, fits, candidates, settings, allowance, keeps_limit=lambda _: True
        )
        if found is not None:
            names = [place.platform for place in world.places]
            picked = names.index(found[0].candidate)
        return Choice(
            picked, float(mean[picked]), float(deviation[picked]), to_learn=found is not None
        )


TO_LEARN = "to learn"
"""The job of runs that were sent where most is learnt."""
_ASKED = Request(user="", account=None, resources=Resources())


def _candidate(place: Place) -> Candidate:
    gpus = int(place.kind == "gpu")
    return Candidate(place.platform, place.platform, place.platform, gpus_per_node=gpus)


def _ranked(place: Place, mean: float, deviation: float, *, measured: bool) -> Ranked:
    time = around(math.exp(mean), NORMAL_90 * deviation)
    basis = Basis.MEASURED if measured else Basis.LEARNED
    return Ranked(
        place.platform, place.platform, _ASKED.resources, time.mid, time, None, None, None, basis
    )
