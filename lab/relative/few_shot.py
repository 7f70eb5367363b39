"""Error on a new device against the number of its labels (workloads timed on it).

Each device in turn is new, and each application in turn is held out. The family is fitted on the
other applications and the other devices. Of the new device it gets ``k`` random workloads of the
other applications. One of the two curves also gives it the new device's times of those
applications' anchor kernels, which stand for a benchmark run (the *signature*). Anchor kernels are
neither tested nor drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.hardware import platforms
from berth.predictor.learning.relative.family import Family, by_application
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.resume import Resume
from lab.kernels import few_shot as of_programs
from lab.kernels.examples import read_examples
from lab.relative import families
from lab.relative.data import AIWC_DATA, aiwc_rows, is_anchor
from lab.relative.evaluation import loaded
from lab.relative.nested import without
from lab.relative.transfer import fit_transfer, targets

LABELS = (0, 1, 2, 4, 8, 16)
DRAWS = 5
SPLIT = (
    "each device in turn new, leave-one-application-out on the test rows, k workloads of the other "
    f"applications drawn {DRAWS} times"
)


@dataclass(frozen=True, slots=True)
class Curve:
    """Median ``|time error|`` on the new device, one value for each of ``LABELS``.

    The medians of applications are averaged over applications, devices and draws.
    """

    error: tuple[float, ...]
    low: tuple[float, ...]
    """Least value over draws."""
    high: tuple[float, ...]
    """Greatest value over draws."""
    worst_device: tuple[float, ...]
    """Error of the device with the greatest error."""


@dataclass(frozen=True, slots=True)
class FewShotResult:
    """Both curves of one family."""

    family: str
    what: str
    plain: Curve
    """Only the labels of the new device are known."""
    signed: Curve
    """The labels and the signature of the new device are known."""
    all_labels: float
    """Error where the device has as many labels as all other devices."""


def steps(rows: Rows) -> int:
    """Return how often ``few_shot`` calls ``advance``."""
    return len(list(_folds(rows))) * len(rows.platforms)


def few_shot(
    rows: Rows,
    family: Family,
    *,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> FewShotResult:
    """Return both curves of a family. ``advance`` is called after each fitted model."""
    devices = [name for name in rows.platforms if name != rows.reference]
    folds = list(_folds(rows))
    errors = np.zeros((2, DRAWS, len(LABELS), len(devices), len(folds)))
    whole = np.zeros((len(devices), len(folds)))
    for a, (train, test) in enumerate(folds):
        asked, held = rows.take(test).knowing(), [rows.applications[test[0]]]
        full = without(rows, family, held, seed=seed, resume=resume)[test]
        advance()
        for d, device in enumerate(devices):
            column = rows.platforms.index(device)
            measured = rows.log_seconds[test, column]
            whole[d, a] = _error(full[:, column], measured)
            others = rows.with_platforms([name for name in rows.platforms if name != device])
            learnt = others.take(train)
            old = without(others, family, held, seed=seed, resume=resume)[test]
            advance()
            speedup = np.delete(asked.log_reference[:, None] - old, others.reference_column, axis=1)
            for draw in range(DRAWS):
                order = _order(rows, train, np.random.default_rng([seed, draw, column]))
                for n, labels in enumerate(_labels(rows, train, column, order)):
                    moved = fit_transfer(targets(learnt), labels, learnt.weights())
                    guess = asked.log_reference - moved.predict(speedup)
                    errors[n // len(LABELS), draw, n % len(LABELS), d, a] = _error(guess, measured)
    return FewShotResult(
        family.name, family.what, _curve(errors[0]), _curve(errors[1]), float(whole.mean())
    )


def _folds(rows: Rows) -> Iterator[tuple[list[int], list[int]]]:
    """Yield training and test rows for each application with rows that are not anchors."""
    anchor = is_anchor(rows)
    for train, held in by_application(rows, 0):
        if test := [i for i in held if not anchor[i]]:
            yield train, test


def _labels(
    rows: Rows, train: Sequence[int], column: int, order: Sequence[int]
) -> Iterator[Floats]:
    """Yield the new device's known log speedups (NaN: unknown) on the training rows.

    There is one array for each of ``LABELS``, first without and then with the anchor kernels.
    """
    anchor = is_anchor(rows)
    real = rows.log_speedup[:, column]
    for signature in ([], [i for i in train if anchor[i]]):
        for count in LABELS:
            labels = np.full(len(rows), np.nan)
            chosen = [*signature, *order[:count]]
            labels[chosen] = real[chosen]
            yield labels[train]


def _order(rows: Rows, train: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Return training rows in the random order of labelling; applications take turns."""
    anchor = is_anchor(rows)
    by_name: dict[str, list[int]] = {}
    for row in train:
        if not anchor[row]:
            by_name.setdefault(rows.applications[row], []).append(row)
    queues = {name: rng.permutation(queue).tolist() for name, queue in by_name.items()}
    found: list[int] = []
    while len(found) < max(LABELS) and any(queues.values()):
        for name in rng.permutation(sorted(queues)).tolist():
            if queues[name]:
                found.append(int(queues[name].pop()))
    return found


def _error(log_predicted: Floats, log_measured: Floats) -> float:
    return float(np.median(np.abs(np.expm1(log_predicted - log_measured))))


def _curve(errors: Floats) -> Curve:
    """Return the curve of errors [draws, labels, devices, applications]."""
    by_draw, by_device = errors.mean(axis=(2, 3)), errors.mean(axis=(0, 3))
    return Curve(
        error=tuple(by_draw.mean(axis=0).tolist()),
        low=tuple(by_draw.min(axis=0).tolist()),
        high=tuple(by_draw.max(axis=0).tolist()),
        worst_device=tuple(by_device.max(axis=1).tolist()),
    )


def evaluate(options: Options) -> Report:
    """Report the curves of all families on AIWC, and of the default program family on RAJAPerf."""
    rows = aiwc_rows()
    wanted, left_out = loaded(families.chosen(options.only))
    total = len(wanted) * steps(rows) + of_programs.steps()
    with step_bar("evaluating", total) as advance:
        examples, known = read_examples(), platforms.load()
        curves = of_programs.evaluate_adapted(examples, known, seed=options.seed, advance=advance)
        resume = Resume(options.unfinished)
        results = [
            few_shot(rows, family, seed=options.seed, resume=resume, advance=advance)
            for family in wanted
        ]
    counts = tuple(f"k = {k}" for k in LABELS)
    relative = Section(
        f"{AIWC_DATA}: median error of times on the new device. Split: {SPLIT}",
        ("family", "signature", *counts, "all labels"),
        [
            (result.family, words, *_spread(curve), f"{result.all_labels:.0%}")
            for result in results
            for words, curve in (("none", result.plain), ("anchor kernels", result.signed))
        ],
    )
    programs = Section(
        f"Default family, RAJAPerf. Split: {of_programs.SPLIT}",
        ("new platform", "figure", *counts),
        [
            (f"{curve.platform} from the prior of {curve.prior_of}", words, *cells)
            for curve in curves
            for words, cells in (
                ("median error", _spread(curve)),
                ("mean log error", [f"{value:.3f}" for value in curve.mean_log_error]),
                ("90 % coverage", [f"{value:.0%}" for value in curve.coverage]),
                ("upper / middle", [f"{value:.1f}" for value in curve.factor]),
            )
        ],
    )
    return Report(
        "Programs on a platform that few workloads were timed on",
        sections=(relative, programs),
        data={
            "split": SPLIT, "labels": LABELS, "results": results,
            "default_family": curves, "left_out": left_out,
        },
        after=tuple(f"left out: {group} ({why})" for group, why in left_out.items()),
    )  # fmt: skip


def _spread(curve: Curve | of_programs.AdaptedCurve) -> Sequence[str]:
    values = zip(curve.error, curve.low, curve.high, strict=True)
    return [f"{mid:.0%} ({low:.0%} to {high:.0%})" for mid, low, high in values]
