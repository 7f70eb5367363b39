"""Ways to choose a device for each submission, knowing only what earlier jobs of it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from berth.predictor.learning.cells import Run
from berth.predictor.learning.components import Components
from berth.predictor.learning.posterior import Posterior
from lab.site.world import World


class Strategy(Protocol):
    """Chooses, and says what it expects."""

    @property
    def name(self) -> str:
        """In tables."""
        ...

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> tuple[int, float, float]:
        """The device; log seconds expected on it, and their deviation."""
        ...


@dataclass(frozen=True, slots=True)
class Learning:
    """The posterior that ships: the least expected time, or Thompson's draw."""

    name: str
    parts: Components
    thompson: bool = False

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> tuple[int, float, float]:
        """By the posterior of all finished jobs of the application."""
        expected = Posterior(runs, self.parts).expected(world.cells(row))
        mean = world.log_forecast[row] + expected.mean
        judged = mean
        if self.thompson:
            judged = mean + expected.deviation * rng.standard_normal(len(mean))
        picked = int(np.argmin(judged))
        deviation = float(expected.deviation[picked]) * self.parts.factor(len(runs))
        return picked, float(mean[picked]), deviation


@dataclass(frozen=True, slots=True)
class Fixed:
    """By the forecast without learning."""

    name: str

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> tuple[int, float, float]:
        """The least forecast time."""
        picked = int(np.argmin(world.log_forecast[row]))
        forecast, deviation = world.log_forecast[row], world.deviation[row]
        return picked, float(forecast[picked]), float(deviation[picked])


@dataclass(frozen=True, slots=True)
class EpsilonGreedy:
    """Means of what each device took over its forecast; one submission in ten at random."""

    name: str
    epsilon: float = 0.1

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> tuple[int, float, float]:
        """A device that was not tried is as its forecast."""
        log_seconds = world.log_forecast[row].copy()
        for device, place in enumerate(world.places):
            seen = [run.log_residual for run in runs if run.cell.place == place]
            if seen:
                log_seconds[device] += float(np.mean(seen))
        picked = int(np.argmin(log_seconds))
        if rng.random() < self.epsilon:
            picked = int(rng.integers(len(world.places)))
        return picked, float(log_seconds[picked]), float(world.deviation[row, picked])


@dataclass(frozen=True, slots=True)
class ToldAll:
    """As ``Learning``, but after each job it is given the times of all devices: a bound."""

    name: str
    parts: Components

    def choose(
        self, world: World, row: int, runs: Sequence[Run], rng: np.random.Generator
    ) -> tuple[int, float, float]:
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
        return picked, float(mean[picked]), float(expected.deviation[picked])
