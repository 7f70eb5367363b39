"""Energy of a job on a candidate, and the objective that makes it least."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from berth.pilot.units import J_PER_KWH
from berth.policies.objectives.protocol import NO_ENERGY, JobEstimate, Objective, ScoreTerm


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
