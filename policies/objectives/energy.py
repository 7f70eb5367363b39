"""Energy and carbon of a job on a candidate, and the objectives that make them least."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Self

from berth.pilot.errors import UsageError
from berth.policies.carbon import J_PER_KWH
from berth.policies.codes import Code
from berth.policies.objectives.protocol import (
    NO_CARBON,
    NO_ENERGY,
    JobEstimate,
    Objective,
    ScoreTerm,
)
from berth.policies.objectives.time_and_cost import length_of, wait_of
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate


class PowerSource(StrEnum):
    """Sources of a job's mean power, best first, in the words that users see."""

    MEASURED = "mean power, measured on finished jobs"
    PREDICTED = "mean power, predicted"
    SHEET = "mean power, by the data sheet"


class PredictedEnergy(NamedTuple):
    """The energy that a job is predicted to use, in joules, with its mean power in watts."""

    joules: float
    power_w: float
    source: PowerSource
    host_w: float = 0.0
    """Part of ``power_w`` for the host's cores beside the GPUs, from the data sheet."""


def energy_of(estimate: JobEstimate) -> PredictedEnergy | None:
    """Return a job's predicted energy: mean power of its resources x predicted time; None: power
    unknown.

    The power per core or GPU comes from finished jobs, else from the prediction's energy, else from
    the data sheet.
    """
    candidate, held, point = estimate.candidate, estimate.resources, estimate.prediction
    core_w = candidate.power_per_core_w
    host_w = (core_w or 0.0) * held.cores if candidate.is_gpu else 0.0
    units = held.gpus if candidate.is_gpu else held.cores
    unit_w, source = point.unit_power_w, PowerSource.MEASURED
    if unit_w is None and point.energy_j is not None and point.runtime_s.mid > 0:
        units_of_point = max(1, point.gpus or point.cores)
        unit_w, source = (
            point.energy_j.mid / point.runtime_s.mid / units_of_point,
            PowerSource.PREDICTED,
        )
    if unit_w is None:
        unit_w = candidate.power_per_gpu_w if candidate.is_gpu else core_w
        source = PowerSource.SHEET
    if unit_w is None:
        return None
    power_w = unit_w * max(1, units) + host_w
    return PredictedEnergy(power_w * estimate.runtime_s.mid, power_w, source, host_w)


def carbon_g(estimate: JobEstimate, energy: PredictedEnergy) -> float | None:
    """Return grams of CO2 equivalent, for a run from the job's expected start; None: intensity
    unknown.
    """
    intensity = intensity_of(estimate)
    return None if intensity is None else energy.joules / J_PER_KWH * intensity


def intensity_of(estimate: JobEstimate) -> float | None:
    """Return the mean carbon intensity in g/kWh during the job's expected run; None: unknown."""
    table = estimate.candidate.carbon
    if table is None:
        return None
    return table.mean(estimate.now_s + wait_of(estimate), length_of(estimate))


def energy_terms(estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
    """Return the mean power with its source, and the energy; empty where no power is known."""
    energy = energy_of(estimate)
    if energy is None:
        return ()
    host = (ScoreTerm("of it cores beside the GPUs", energy.host_w, "W"),) if energy.host_w else ()
    return (
        ScoreTerm(energy.source.value, energy.power_w, "W"),
        *host,
        ScoreTerm("energy", energy.joules / J_PER_KWH, "kWh"),
    )


class LeastEnergy(Objective):
    """Choose the candidate with the least predicted energy in joules."""

    name = "least-energy"
    superlative = "is predicted to need least energy"
    comparative = "less energy"
    missing = NO_ENERGY

    def score(self, estimate: JobEstimate) -> float | None:
        """Return the job's predicted energy in joules; None: no power is known."""
        energy = energy_of(estimate)
        return None if energy is None else energy.joules

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the predicted time, mean power and energy, for a person to read."""
        return (ScoreTerm("predicted time", estimate.runtime_s.mid, "s"), *energy_terms(estimate))


class LeastCarbon(Objective):
    """Choose the candidate with the fewest grams of CO2 equivalent."""

    name = "least-carbon"
    superlative = "is predicted to emit least carbon"
    comparative = "less carbon"
    missing = NO_CARBON
    live = True

    @classmethod
    def of(cls, settings: PolicySettings, candidates: Sequence[Candidate]) -> Self:
        """Return the objective for this site. Raises UsageError if no candidate has a carbon
        intensity.
        """
        if candidates and all(candidate.carbon is None for candidate in candidates):
            raise UsageError(
                f"the objective {cls.name!r} needs the carbon intensity of the electricity",
                hint="energy.carbon_g_per_kwh or energy.carbon_file in the site file",
            )
        return cls(settings.weights)

    def score(self, estimate: JobEstimate) -> float | None:
        """Return the job's predicted grams of CO2 equivalent; None: power or carbon intensity is
        unknown.
        """
        energy = energy_of(estimate)
        return None if energy is None else carbon_g(estimate, energy)

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the predicted time, energy and carbon intensity, for a person to read."""
        mean = intensity_of(estimate)
        intensity = () if mean is None else (ScoreTerm("carbon intensity then", mean, "g/kWh"),)
        return (
            ScoreTerm("predicted time", estimate.runtime_s.mid, "s"),
            *energy_terms(estimate),
            *intensity,
        )

    def why_missing(self, estimate: JobEstimate) -> tuple[Code, str]:
        """Return the code and sentence of the missing number: the energy, or else the carbon
        intensity.
        """
        return NO_ENERGY if energy_of(estimate) is None else NO_CARBON
