"""Predicted energy and carbon emission of a job on a candidate, with the source of the power."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from berth.policies.carbon import J_PER_KWH
from berth.policies.objectives.costs import length_of, wait_of
from berth.policies.objectives.protocol import Estimate, Term


class PowerSource(StrEnum):
    """Sources of a job's mean power, best first, in the words that users see."""

    MEASURED = "mean power, measured on finished jobs"
    PREDICTED = "mean power, predicted"
    SHEET = "mean power, by the data sheet"


class Energy(NamedTuple):
    """The energy that a job is predicted to use, in joules, with its mean power in watts."""

    joules: float
    power_w: float
    source: PowerSource
    host_w: float = 0.0
    """Part of ``power_w`` for the host's cores beside the GPUs, from the data sheet."""


def energy_of(estimate: Estimate) -> Energy | None:
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
    return Energy(power_w * estimate.runtime_s.mid, power_w, source, host_w)


def carbon_g(estimate: Estimate, energy: Energy) -> float | None:
    """Return grams of CO2 equivalent, for a run from the job's expected start; None: intensity
    unknown.
    """
    intensity = intensity_of(estimate)
    return None if intensity is None else energy.joules / J_PER_KWH * intensity


def intensity_of(estimate: Estimate) -> float | None:
    """Return the mean carbon intensity in g/kWh during the job's expected run; None: unknown."""
    table = estimate.candidate.carbon
    if table is None:
        return None
    return table.mean(estimate.now_s + wait_of(estimate), length_of(estimate))


def energy_terms(estimate: Estimate) -> tuple[Term, ...]:
    """Return the mean power with its source, and the energy; empty where no power is known."""
    energy = energy_of(estimate)
    if energy is None:
        return ()
    host = (Term("of it cores beside the GPUs", energy.host_w, "W"),) if energy.host_w else ()
    return (
        Term(energy.source.value, energy.power_w, "W"),
        *host,
        Term("energy", energy.joules / J_PER_KWH, "kWh"),
    )
