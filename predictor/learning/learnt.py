"""A forecast after finished jobs: the forecast without learning, moved by the posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from berth.predictor.core.forecast import Forecast, SourceShare
from berth.predictor.core.forecaster import speedup
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Prediction, PredictionCurve
from berth.predictor.learning.cells import Cell, Run
from berth.predictor.learning.components import SHIPPED, Components
from berth.predictor.learning.evidence import NORMAL_90, cell_of, place_of
from berth.predictor.learning.posterior import NO_EFFECTS, Effects, Posterior

SOURCE = "finished jobs"
"""How sources of learnt times begin."""
_LEAST_LOG_WIDTH = 0.02
_SAME_UNITS = 0.05
"""Log of cores or GPUs: a run within this was made with these very resources."""
_UNMOVED = 1e-6


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a site beside one workload's runs."""

    effects: Effects = NO_EFFECTS
    factors: Mapping[str, float] = field(default_factory=dict)
    """On the half widths of intervals, by platform: online levels."""
    factor: float = 1.0
    """The workload's own."""
    epoch: int = 0
    """The newest one of the workload."""
    place_epochs: Mapping[str, int] = field(default_factory=dict)
    doubted: Mapping[str, str] = field(default_factory=dict)
    """Platforms whose intervals fail, with a sentence each."""
    families: Mapping[str, str] = field(default_factory=dict)
    """Vendors by platform."""


@dataclass(frozen=True, slots=True)
class Pull:
    """By how much one finished job moves the expected time on a platform."""

    job: str
    log_move: float
    weight: float
    """1: a usual run; near 0: an outlier."""


def learnt_forecast(
    base: Forecast, runs: Sequence[Run], standing: Standing, parts: Components = SHIPPED
) -> Forecast:
    """``base``, which knows no finished job, after ``runs`` of its workload."""
    posterior = Posterior(runs, parts, standing.effects)
    curves, sources = dict(base.curves), dict(base.sources)
    for name, curve in base.curves.items():
        made = _curve(base, curve, name, posterior, standing)
        if made is not None:
            curves[name] = made
            width = _log_width(made.points[0])
            what = _what(name, posterior, standing)
            sources[name] = (SourceShare(what, 1.0, width, base.source_of(name)),)
    return replace(
        base,
        curves=curves,
        sources=sources,
        doubted={n: text for n, text in standing.doubted.items() if n in curves},
    )


def pulls(
    base: Forecast, runs: Sequence[Run], standing: Standing, platform: str, point: int = -1
) -> list[Pull]:
    """Which jobs moved the expected time on ``platform``, in the order of the runs.

    ``point``: of the platform's curve.
    """
    posterior = Posterior(runs, effects=standing.effects)
    cells = _cells(base, base.curves[platform], platform, standing)
    if not cells or not posterior.runs:
        return []
    moves = posterior.pulls(cells[point])
    return [
        Pull(run.job, move, weight)
        for run, move, weight in zip(posterior.runs, moves, posterior.weights, strict=True)
    ]


def _cells(base: Forecast, curve: PredictionCurve, name: str, standing: Standing) -> list[Cell]:
    place = place_of(name, base, standing.families)
    if place is None:
        return []
    epochs = standing.place_epochs
    found = [
        cell_of(
            base, place, (p.gpus or p.cores) * base.main_nodes, None,
            epoch=standing.epoch, place_epoch=epochs.get(name, 0),
        )
        for p in curve.points
    ]  # fmt: skip
    return [cell for cell in found if cell is not None]


def _curve(
    base: Forecast, curve: PredictionCurve, name: str, posterior: Posterior, standing: Standing
) -> PredictionCurve | None:
    """None: nothing that was learnt concerns the platform."""
    cells = _cells(base, curve, name, standing)
    factor = max(standing.factors.get(name, 1.0), standing.factor)
    if len(cells) != len(curve.points):
        return None
    if not posterior.runs and name not in standing.effects.platforms and factor <= 1.0:
        return None
    expected = posterior.expected(cells)
    factor *= posterior.parts.factor(len(posterior.runs))
    points = []
    for point, cell, mean, deviation in zip(
        curve.points, cells, expected.mean, expected.deviation, strict=True
    ):
        width = max(NORMAL_90 * float(deviation) * factor, _LEAST_LOG_WIDTH)
        time = around(point.runtime_s.mid * math.exp(float(mean)), width)
        moved = time.mid / point.runtime_s.mid
        reference_s = base.reference_runtime_s
        points.append(
            replace(
                point,
                runtime_s=time,
                speedup=(
                    point.speedup.scaled(1 / moved)
                    if reference_s is None
                    else speedup(reference_s, time)
                ),
                energy_j=None if point.energy_j is None else point.energy_j.scaled(moved),
                basis=(basis := _basis(point, cell, posterior, standing)),
                abstained=None if basis is Basis.MEASURED else point.abstained,
            )
        )
    return PredictionCurve(tuple(points))


def _basis(point: Prediction, cell: Cell, posterior: Posterior, standing: Standing) -> Basis:
    """Measured where it ran with these resources; a prior stays one where no program ran."""
    here = [r for r in posterior.runs if r.cell.place == cell.place and not r.censored]
    newest = [r for r in here if r.cell.place_epoch == cell.place_epoch]
    if any(_same_row(run.cell, cell) for run in newest):
        return Basis.MEASURED
    if point.basis in (Basis.MEASURED, Basis.LEARNED):
        return point.basis
    ran = bool(here) or cell.place.platform in standing.effects.platforms
    return point.basis if point.basis is Basis.PRIOR and not ran else Basis.LEARNED


def _same_row(run: Cell, asked: Cell) -> bool:
    sizes = abs(run.row.log_size - asked.row.log_size)
    units = abs(run.row.log_units - asked.row.log_units)
    return run.row.part == asked.row.part and max(sizes, units) < _SAME_UNITS


def _what(name: str, posterior: Posterior, standing: Standing) -> str:
    here = sum(run.cell.place.platform == name for run in posterior.runs)
    elsewhere = len(posterior.runs) - here
    parts = [f"{here} here"] * bool(here) + [f"{elsewhere} elsewhere"] * bool(elsewhere)
    if name in standing.effects.platforms:
        parts.append("other programs here" if here or elsewhere else "of other programs here")
    return f"{SOURCE}: {', '.join(parts) or 'wider intervals'}"


def _log_width(point: Prediction) -> float:
    return math.log(point.runtime_s.high / point.runtime_s.mid)
