"""Errors of each source of a model graph's time, and of their combination, on held-out groups.

A *source* is a method that predicts the time (``held_out_sources.SOURCES``). A *situation* is what
is known beforehand, for example that the device was measured with other models. A *group* is a
device, an architecture or a family of models. The bias and the interval width that are applied to
a group are fitted on the other groups only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.documents import to_json, write_text
from berth.plugin.cli.train.training_input import command_line
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.bundle_writing import now
from berth.predictor.core.combine import SourceEstimate, combine
from berth.predictor.core.intervals import LEVEL, around, group_quantile
from berth.predictor.core.prediction import Basis
from berth.predictor.families.graph.sources import (
    COMBINED,
    IMAGES_IN_HALF,
    LANGUAGE_IN_FP32,
    LEAST_GROUPS,
    MEASURED,
    OPERATORS,
    ROOFLINE,
    SourceError,
    SourceErrors,
    corrected,
    known_device,
)
from lab.datasets import neusight, timm
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.table import Flags, Floats, Strings
from lab.latency.held_out_sources import KNOWN, SOURCES, STEPS, SourceTimes, all_situations

GPUS = (IMAGES_IN_HALF, LANGUAGE_IN_FP32)
"""Situations of a new GPU without measurements. One interval factor of the combination is fitted on
the GPUs of both situations together."""
SPLIT = (
    "known device: folds by architecture and by family; new device: each device held out, a third "
    "of the architectures everywhere; language models: GPUs of other silicon"
)
_DATA = (timm.BENCHMARK, timm.GRAPHS, neusight.OPERATORS, neusight.MODELS)
_FOLDS = 10


@dataclass(frozen=True, slots=True)
class Shown:
    """Figures of one source, or of the combination of all sources, in one situation."""

    situation: str
    source: str
    rows: int
    groups: int
    mape: float
    """Mean of |predicted / measured - 1| over rows, averaged over groups."""
    bias: float
    """Median of predicted / measured - 1, averaged over groups."""
    coverage: float
    """Share of rows inside the 90 % interval, averaged over groups."""
    factor: float
    """Median over rows of the interval's upper end / predicted time."""


@dataclass(frozen=True, slots=True)
class Combination:
    """Figures for the report, and the errors that ship with Berth."""

    shown: tuple[Shown, ...]
    unlike_above: float
    errors: tuple[SourceError, ...]


Errors = dict[tuple[str, str], SourceError]


def combined_errors(rows: SourceTimes, above: float | None = None) -> Combination:
    """Return figures of all situations; each group is corrected by errors of the other groups.

    ``above``: models of a greater difficulty are treated as of an unseen family; default:
    ``threshold(rows)``.
    """
    above = threshold(rows) if above is None else above
    rows = situated(rows, above)
    shown: list[Shown] = []
    errors: list[SourceError] = []
    for pool in _pools(rows):
        some = rows[np.isin(rows.split, pool)]
        held, learnt = _held_out(some), learn(some)
        for situation in pool:
            here = some.split == situation
            for source in (*SOURCES, COMBINED):
                if not np.isfinite(held[source][0][here]).any():
                    continue
                one = _show(some[here], situation, source, *(x[here] for x in held[source]))
                shown.append(one)
                if source != COMBINED and not combines(source, situation):
                    continue
                error = learnt[situation, source]
                errors.append(error.model_copy(update={"coverage": round(one.coverage, 4)}))
    return Combination(tuple(shown), above, tuple(errors))


def combines(source: str, situation: str) -> bool:
    """Return whether a source is part of the combination; a source that is not is a baseline.

    The roofline never is. On a known device the operators are not: their errors are correlated
    with those of the measured models (0.6) and four times as large, so that no weight of the
    operators reduced the held-out error of the combination.
    """
    return source != ROOFLINE and not (source == OPERATORS and situation in KNOWN)


def threshold(rows: SourceTimes) -> float:
    """Return the difficulty that separates unseen models from unseen families.

    The share of rows of unseen models above it equals the share of rows of unseen families below.
    """
    models, families = (np.sort(rows.difficulty[rows.split == one]) for one in KNOWN)
    both = np.sort(np.concatenate((models, families)))
    above = 1 - np.searchsorted(models, both, side="right") / len(models)
    below = np.searchsorted(families, both, side="right") / len(families)
    return round(float(both[np.abs(above - below).argmin()]), 3)


def situated(rows: SourceTimes, above: float) -> SourceTimes:
    """Return ``rows`` with ``situation`` set: on a known device by the row's difficulty."""
    known = np.isin(rows.split, tuple(KNOWN))
    other = rows.difficulty > above
    device = np.where(other, known_device(unlike=True), known_device(unlike=False))
    return replace(rows, situation=np.where(known, device, rows.split))


def _pools(rows: SourceTimes) -> list[tuple[str, ...]]:
    found = set(rows.split.tolist())
    pools = [tuple(one for one in pool if one in found) for pool in (tuple(KNOWN), GPUS)]
    rest = found - set(KNOWN) - set(GPUS)
    return [*(pool for pool in pools if pool), *((one,) for one in sorted(rest))]


def _held_out(rows: SourceTimes) -> dict[str, tuple[Floats, Floats]]:
    """Return (log seconds, log half width), [rows] each, by source; NaN: no prediction.

    Bias and width come from folds without the row's group.
    """
    sources = (*SOURCES, COMBINED)
    found = {one: (np.full(len(rows), np.nan), np.full(len(rows), np.nan)) for one in sources}
    names = sorted(set(rows.group.tolist()))
    each = 1 if len(names) <= _FOLDS + len(GPUS) else math.ceil(len(names) / _FOLDS)
    for start in range(0, len(names), each):
        test = np.isin(rows.group, names[start : start + each])
        for source, (middle, width) in predict(rows[test], learn(rows[~test])).items():
            found[source][0][test], found[source][1][test] = middle, width
    return found


def learn(rows: SourceTimes) -> Errors:
    """Fit bias and interval width of each source in each situation, then of their combination.

    Rows whose ``situation`` differs from their ``split`` are not used.
    """
    rows = rows[rows.situation == rows.split]
    situations = sorted(set(rows.situation.tolist()))
    found: Errors = {}
    for situation in situations:
        here = rows[rows.situation == situation]
        for source in SOURCES:
            said = here.by(source)
            known = np.isfinite(said)
            if known.any():
                off = (here.log_seconds - said)[known]
                bias = _shrunk_bias(off, here.group[known])
                own = here.own_width[known] if source == MEASURED else np.ones(len(off))
                width = _width(np.abs(off - bias) / own, here.group[known])
                found[situation, source] = _error(source, situation, bias, width, here.group[known])
    middle, half = predict(rows, found)[COMBINED]
    score = np.abs(rows.log_seconds - middle) / half
    for situation in situations:
        alike = GPUS if situation in GPUS else (situation,)
        of = np.isfinite(score) & np.isin(rows.situation, alike)
        own = rows.situation == situation
        factor = _width(score[of], rows.group[of])
        made = _error(COMBINED, situation, 0.0, factor, rows.group[of])
        found[situation, COMBINED] = made.model_copy(update={"rows": int((of & own).sum())})
    return found


def _error(source: str, situation: str, bias: float, width: float, group: Strings) -> SourceError:
    return SourceError(
        source=source, situation=situation, log_bias=round(bias, 4),
        log_width=round(max(width, 1e-3), 4), groups=len(set(group.tolist())), rows=len(group),
        coverage=0.0,
    )  # fmt: skip


def _shrunk_bias(off: Floats, group: Strings) -> float:
    """Return the mean of the groups' medians, shrunk towards 0 by the positive-part James-Stein
    rule: the fewer groups and the more they differ, the closer to 0."""
    medians = np.array([np.median(off[group == name]) for name in np.unique(group)])
    mean = float(medians.mean())
    if len(medians) < 2 or mean == 0:
        return 0.0
    chance = float(medians.var(ddof=1)) / len(medians)
    return mean * max(0.0, 1 - chance / mean**2)


def _width(score: Floats, group: Strings) -> float:
    """Return the score that 90 % of the rows of a new group should be below.

    With fewer than ``LEAST_GROUPS`` groups, return the 90 % quantile of the worst group.
    """
    names = np.unique(group)
    if len(names) >= LEAST_GROUPS:
        return group_quantile(score.tolist(), group.tolist())
    return float(max(np.quantile(score[group == name], LEVEL) for name in names))


def predict(rows: SourceTimes, errors: Errors) -> dict[str, tuple[Floats, Floats]]:
    """Return (log seconds, log half width of the 90 % interval), [rows] each, by source.

    The key ``COMBINED`` has the combination of all sources. NaN: no prediction.
    """
    names = (*SOURCES, COMBINED)
    found = {name: (np.full(len(rows), np.nan), np.full(len(rows), np.nan)) for name in names}
    for n, situation in enumerate(rows.situation.tolist()):
        estimates = []
        for column, source in enumerate(SOURCES):
            error, said = errors.get((situation, source)), rows.said[n, column]
            if error is None or not np.isfinite(said):
                continue
            own = rows.own_width[n] if source == MEASURED else 1.0
            seconds = corrected(around(np.exp(said), own), error)
            if combines(source, situation):
                estimates.append(SourceEstimate(source, seconds, Basis.PRIOR, situation))
            found[source][0][n] = np.log(seconds.mid)
            found[source][1][n] = np.log(seconds.high / seconds.mid)
        if estimates:
            made, together = combine(estimates).seconds, errors.get((situation, COMBINED))
            made = made if together is None else corrected(made, together)
            found[COMBINED][0][n] = np.log(made.mid)
            found[COMBINED][1][n] = np.log(made.high / made.mid)
    return found


def _show(rows: SourceTimes, situation: str, source: str, middle: Floats, width: Floats) -> Shown:
    known = np.isfinite(middle)
    off, names = (middle - rows.log_seconds)[known], rows.group[known]
    inside = np.abs(off) <= width[known]

    def over(values: Floats | Flags) -> float:
        return float(np.mean([np.mean(values[names == name]) for name in np.unique(names)]))

    bias = [float(np.median(off[names == name])) for name in np.unique(names)]
    return Shown(
        situation, source, int(known.sum()), len(set(names.tolist())),
        over(np.abs(np.expm1(off))), float(np.expm1(np.mean(bias))), over(inside),
        float(np.exp(np.median(width[known]))),
    )  # fmt: skip


_HEADER = ("source", "rows", "groups", "mean error", "bias", "in 90 % interval", "interval x")


def report_of(found: Combination, seed: int) -> Report:
    """Return a report with one table per situation."""
    return Report(
        "Sources of a model graph's time, by situation",
        (
            "Errors are |predicted / measured - 1| of seconds an image, averaged over groups: "
            "architectures, families of models, or devices; what is held out gives neither a "
            "time nor an error.",
            f"On a known device a model counts as of an unseen family above a difficulty of "
            f"{found.unlike_above}. The roofline, times what is reached of it, is a baseline.",
            f"Seed {seed}.",
        ),
        tuple(
            Section(situation, _HEADER, [
                (
                    one.source, str(one.rows), str(one.groups), f"{one.mape:.1%}",
                    f"{one.bias:+.1%}", f"{one.coverage:.1%}", f"{one.factor:.2f}",
                )
                for one in found.shown if one.situation == situation
            ])
            for situation in dict.fromkeys(one.situation for one in found.shown)
        ),
        {"seed": seed, "unlike_above": found.unlike_above, "results": list(found.shown)},
    )  # fmt: skip


def document(found: Combination, seed: int, command: str) -> SourceErrors:
    """Return the document ``source_errors.json`` that ships with Berth."""
    return SourceErrors(
        command=command, created=now(), split=SPLIT, seed=seed,
        sources={one.path: one.sha256 for one in _DATA},
        unlike_above=found.unlike_above, errors=found.errors,
    )  # fmt: skip


def evaluate(options: Options) -> Report:
    """Report errors and coverage of each source, of the baselines and of the combination."""
    return report_of(_held_out_errors(options), options.seed)


def train(options: Options) -> str:
    """Write ``source_errors.json`` into ``options.bundle`` and return a line of summary."""
    made = document(_held_out_errors(options), options.seed, command_line())
    write_text(options.bundle / "source_errors.json", to_json(made))
    return f"{len(made.errors)} errors of sources by situation"


def _held_out_errors(options: Options) -> Combination:
    with step_bar("predicting held-out rows", STEPS) as advance:
        return combined_errors(all_situations(options.seed, advance))
