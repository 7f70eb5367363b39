"""Correction of a workload's forecast by the finished jobs of that workload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from berth.predictor.core.forecast import Forecast, SourceShare
from berth.predictor.core.intervals import NORMAL_90, around
from berth.predictor.core.nodes import NodeRatio, NodeScaling, NodeTime
from berth.predictor.core.prediction import Basis, Interval, Prediction, PredictionCurve
from berth.predictor.learning.cells import SHIPPED, Cell, Components, RunResidual
from berth.predictor.learning.effects import NO_EFFECTS, Effects
from berth.predictor.learning.evidence import cell_of, place_of
from berth.predictor.learning.posterior import Posterior

SOURCE = "finished jobs"
"""First words of the source text of times that were learnt from finished jobs."""
_LEAST_LOG_WIDTH = 0.02
_SAME_UNITS = 0.05
"""Difference in log size, units or nodes below which a run counts as made with these resources."""


@dataclass(frozen=True, slots=True)
class SiteEvidence:
    """What a site's jobs say about a workload besides the workload's own runs."""

    effects: Effects = NO_EFFECTS
    """Log-time offsets of platforms, learnt from the site's other programs."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Factors on the half widths of intervals by platform, adjusted online to 90 % coverage."""
    factor: float = 1.0
    """Factor on the half widths of the workload's own intervals, adjusted online."""
    interval: tuple[float, ...] | None = None
    """Factors on half widths by ``cells.phase``; None: the shipped factors."""
    epoch: int = 0
    """Newest epoch of the workload: the number of changes detected in it."""
    place_epochs: Mapping[str, int] = field(default_factory=dict)
    """Newest epoch of each platform; platforms without a detected change may be absent."""
    doubted: Mapping[str, str] = field(default_factory=dict)
    """Platforms whose intervals hold too few of the recent times, with a sentence for the user."""

    def level(self, platform: str) -> float:
        """Return the factor on the half widths of the workload's intervals on a platform.

        It is the larger of the platform's and the workload's factor.
        """
        return max(self.factors.get(platform, 1.0), self.factor)


@dataclass(frozen=True, slots=True)
class Pull:
    """The amount by which one finished job moves the expected time on a platform."""

    job: str
    log_move: float
    """Change of the natural log of the expected time that the job causes."""
    weight: float
    """Weight of the job in the fit: 1 for a usual run, near 0 for an outlier."""


def learnt_forecast(
    base: Forecast, runs: Sequence[RunResidual], standing: SiteEvidence, parts: Components = SHIPPED
) -> Forecast:
    """Return the forecast ``base``, made without finished jobs, corrected by ``runs`` of its
    workload."""
    if standing.interval is not None:
        parts = replace(parts, interval=standing.interval)
    posterior = Posterior(runs, parts, standing.effects)
    curves, sources = dict(base.curves), dict(base.sources)
    own_log_widths = _own_log_widths(base, posterior, standing)
    for name, curve in base.curves.items():
        learnt_curve = _curve(base, curve, name, posterior, standing)
        if learnt_curve is not None:
            own = own_log_widths.get(name)
            curves[name] = PredictionCurve(
                tuple(replace(point, own_log_width=own) for point in learnt_curve.points)
            )
            width = learnt_curve.points[0].runtime_s.log_width
            source = _source_of(name, posterior, standing)
            sources[name] = (SourceShare(source, 1.0, width, base.source_of(name)),)
    return replace(
        base,
        curves=curves,
        sources=sources,
        nodes=_nodes(base, posterior, standing),
        doubted={n: text for n, text in standing.doubted.items() if n in curves},
    )


def _own_log_widths(
    base: Forecast, posterior: Posterior, standing: SiteEvidence
) -> dict[str, float]:
    """Return, by platform, the half width in log of the part of the time's error that the
    forecast's other platforms do not share.

    Empty where ``base`` does not tell the shared part of its errors apart. The part is the
    platform's variance less its least covariance with another platform, so that two platforms'
    parts are never less than the variance of their ratio.
    """
    if all(curve.points[-1].own_log_width is None for curve in base.curves.values()):
        return {}
    cells = {
        name: of_curve[-1]
        for name, curve in base.curves.items()
        if (of_curve := _cells(base, curve, name, standing))
    }
    covariance = posterior.covariance_of(list(cells.values()))
    variance = np.diag(covariance).copy()
    np.fill_diagonal(covariance, np.inf)
    least = np.clip(covariance.min(axis=1), 0.0, variance) if len(cells) > 1 else 0.0
    return {
        name: _half_width(deviation, posterior, standing.level(name))
        for name, deviation in zip(cells, np.sqrt(variance - least).tolist(), strict=True)
    }


def pulls(
    base: Forecast,
    runs: Sequence[RunResidual],
    standing: SiteEvidence,
    platform: str,
    point: int = -1,
) -> list[Pull]:
    """Return how much each run moved the expected time on ``platform``, in the order of the runs.

    ``point``: index into the platform's curve. Empty where there is no run or no place for the
    platform.
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


def _cells(base: Forecast, curve: PredictionCurve, name: str, standing: SiteEvidence) -> list[Cell]:
    place = place_of(name, base)
    if place is None:
        return []
    epochs = standing.place_epochs
    cells = [
        cell_of(
            base, place, (p.gpus or p.cores) * base.main_nodes, None,
            epoch=standing.epoch, place_epoch=epochs.get(name, 0),
        )
        for p in curve.points
    ]  # fmt: skip
    return [cell for cell in cells if cell is not None]


def _curve(
    base: Forecast, curve: PredictionCurve, name: str, posterior: Posterior, standing: SiteEvidence
) -> PredictionCurve | None:
    cells = _cells(base, curve, name, standing)
    factor = standing.level(name)
    if len(cells) != len(curve.points):
        return None
    if not posterior.runs and name not in standing.effects.platforms and factor <= 1.0:
        return None
    expected = posterior.expected(cells)
    points = []
    for point, cell, mean, deviation in zip(
        curve.points, cells, expected.mean, expected.deviation, strict=True
    ):
        time = _time(point.runtime_s.mid, float(mean), float(deviation), posterior, factor)
        moved = time.mid / point.runtime_s.mid
        reference_s = base.reference_runtime_s
        points.append(
            replace(
                point,
                runtime_s=time,
                speedup=(
                    point.speedup.scaled(1 / moved)
                    if reference_s is None
                    else time.over(reference_s)
                ),
                energy_j=None if point.energy_j is None else point.energy_j.scaled(moved),
                basis=(basis := _basis(point, cell, posterior, standing)),
                abstained=None if basis is Basis.MEASURED else point.abstained,
            )
        )
    return PredictionCurve(tuple(points))


def _time(
    before_s: float, mean: float, deviation: float, posterior: Posterior, factor: float
) -> Interval:
    return around(before_s * math.exp(mean), _half_width(deviation, posterior, factor))


def _half_width(deviation: float, posterior: Posterior, factor: float) -> float:
    factor *= posterior.parts.factor(posterior.runs_elsewhere)
    return max(NORMAL_90 * deviation * factor, _LEAST_LOG_WIDTH)


def _nodes(base: Forecast, posterior: Posterior, standing: SiteEvidence) -> NodeScaling | None:
    """Return how the time changes with nodes, corrected where jobs ran on other numbers of nodes
    than the main run.

    Without such jobs the time on every number of nodes moves with the time of the main run's
    number.
    """
    scaling = base.nodes
    runs = [run for run in posterior.runs if run.cell.row.log_nodes]
    if scaling is None or not runs:
        return scaling
    units = _shape(runs[-1], scaling)[1]
    ratios, learnt = {}, {}
    for name in base.curves:
        before = scaling.ratios.get(name, ())
        asked = [(scaling.base, units), *((ratio.nodes, units) for ratio in before)]
        own_shapes = dict.fromkeys(
            _shape(run, scaling) for run in runs if _tells(run, name, base, standing)
        )
        learnt_times = _times_on(base, name, [*asked, *own_shapes], posterior, standing)
        if learnt_times is None:
            continue
        main, *others = learnt_times
        ratios[name] = tuple(
            NodeRatio(ratio.nodes, _over(time, main), ratio.memory)
            for ratio, time in zip(before, others, strict=False)
        )
        learnt[name] = tuple(
            NodeTime(*shape, time)
            for shape, time in zip(own_shapes, others[len(before) :], strict=True)
        )
    return replace(
        scaling,
        ratios=dict(scaling.ratios) | {name: table for name, table in ratios.items() if table},
        learnt={name: times for name, times in learnt.items() if times},
    )


def _shape(run: RunResidual, scaling: NodeScaling) -> tuple[int, int]:
    """Return the number of nodes of a run, and its cores or GPUs per node."""
    row = run.cell.row
    per_node = math.exp(row.log_units) / scaling.base
    return round(math.exp(row.log_nodes) * scaling.base), max(1, round(per_node))


def _tells(run: RunResidual, name: str, base: Forecast, standing: SiteEvidence) -> bool:
    """Return whether a run informs the time on a platform: it ran there, at the profiled size, and
    was not cut off.

    A run before the platform's last detected change does not count.
    """
    cell, own = run.cell, base.sizes.size
    same_size = abs(cell.row.log_size - (math.log(own) if own else 0.0)) < _SAME_UNITS
    newest = cell.place_epoch == standing.place_epochs.get(name, 0)
    return cell.place.platform == name and newest and same_size and not run.censored


def _times_on(
    base: Forecast,
    name: str,
    shapes: Sequence[tuple[int, int]],
    posterior: Posterior,
    standing: SiteEvidence,
) -> list[Interval] | None:
    place = place_of(name, base)
    if place is None:
        return None
    cells, before = [], []
    for nodes, units in shapes:
        cell = cell_of(
            base, place, units * nodes, None, nodes=nodes,
            epoch=standing.epoch, place_epoch=standing.place_epochs.get(name, 0),
        )  # fmt: skip
        time = base.runtime_at(name, units * nodes, nodes=nodes)
        if cell is None or time is None:
            return None
        cells.append(cell)
        before.append(time.mid)
    expected, level = posterior.expected(cells), standing.level(name)
    return [
        _time(time_s, float(mean), float(deviation), posterior, level)
        for time_s, mean, deviation in zip(before, expected.mean, expected.deviation, strict=True)
    ]


def _over(time: Interval, main: Interval) -> Interval:
    """Return the ratio of ``time`` to ``main``, as wide in log as ``time`` is wider than
    ``main``."""
    wider = time.log_width - main.log_width
    return around(time.mid / main.mid, max(0.0, wider))


def _basis(point: Prediction, cell: Cell, posterior: Posterior, standing: SiteEvidence) -> Basis:
    """Return the kind of evidence of a corrected prediction: MEASURED where the workload ran with
    these resources.

    A prior stays a prior where no program of the site ran on the platform; other predictions are
    LEARNED or keep a better basis.
    """
    runs_here = [r for r in posterior.runs if r.cell.place == cell.place and not r.censored]
    newest = [r for r in runs_here if r.cell.place_epoch == cell.place_epoch]
    if any(_same_row(run.cell, cell) for run in newest):
        return Basis.MEASURED
    if point.basis in (Basis.MEASURED, Basis.LEARNED):
        return point.basis
    ran = bool(runs_here) or cell.place.platform in standing.effects.platforms
    return point.basis if point.basis is Basis.PRIOR and not ran else Basis.LEARNED


def _same_row(run: Cell, asked: Cell) -> bool:
    sizes = abs(run.row.log_size - asked.row.log_size)
    units = abs(run.row.log_units - asked.row.log_units)
    nodes = abs(run.row.log_nodes - asked.row.log_nodes)
    return run.row.part == asked.row.part and max(sizes, units, nodes) < _SAME_UNITS


def _source_of(name: str, posterior: Posterior, standing: SiteEvidence) -> str:
    runs_here = sum(run.cell.place.platform == name for run in posterior.runs)
    runs_elsewhere = len(posterior.runs) - runs_here
    parts = [f"{runs_here} here"] * bool(runs_here) + [f"{runs_elsewhere} elsewhere"] * bool(
        runs_elsewhere
    )
    if name in standing.effects.platforms:
        parts.append(
            "other programs here" if runs_here or runs_elsewhere else "of other programs here"
        )
    return f"{SOURCE}: {', '.join(parts) or 'wider intervals'}"
