"""Curves of error against labels: each device in turn new, each application in turn unseen.

For a held-out application the family learns from the other applications on the other devices; of
the new device it has ``k`` workloads of those applications, drawn at random, and in one of two
curves also its times on the anchor kernels of those applications (the signature that stands in
for a benchmark run). Anchor kernels are in no test and no draw.

*Calibrated*, the new device has times of a suite of ``SUITE`` workloads of the other applications:
those that tell most of where it lies among the known devices, chosen before any of its times is
seen. Intervals of a held-out application on a held-out device come from the errors of the other
applications on the other devices, each held out in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.family import Family
from berth.predictor.learning.relative.splits import by_application
from berth.predictor.learning.relative.trust import next_application_quantile
from berth.predictor.learning.resume import Resume
from lab.ground.new_machines import Knowledge, NewMachine, averaged, known
from lab.relative.data import is_anchor
from lab.relative.nested import without
from lab.relative.transfer import Transfer, fit_transfer, targets

LABELS = (0, 1, 2, 4, 8, 16)
SUITE = 8
"""Workloads that a calibration runs on the new device."""
DRAWS = 5
SPLIT = (
    "each device in turn new, leave-one-application-out on the test rows, k workloads of the other "
    f"applications drawn {DRAWS} times"
)


@dataclass(frozen=True, slots=True)
class Curve:
    """Median ``|time error|`` on the new device; applications, then devices, then draws averaged.

    One value for each of ``LABELS``.
    """

    error: tuple[float, ...]
    low: tuple[float, ...]
    """Least over draws."""
    high: tuple[float, ...]
    worst_device: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FewShotResult:
    """One family."""

    family: str
    what: str
    plain: Curve
    """The device is known by its labels only."""
    signed: Curve
    """By its signature and its labels."""
    all_labels: float
    """The family's own error where the device is labelled like all others."""
    machines: tuple[NewMachine, ...]
    """Each device before and after its calibration."""


def steps(rows: Rows) -> int:
    """How often ``few_shot`` calls ``advance``."""
    return len(list(_folds(rows))) * len(rows.platforms)


def few_shot(
    rows: Rows,
    family: Family,
    *,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> FewShotResult:
    """Both curves of a family. ``advance`` is called once a fitted model."""
    devices = [name for name in rows.platforms if name != rows.reference]
    folds = list(_folds(rows))
    errors = np.zeros((2, DRAWS, len(LABELS), len(devices), len(folds)))
    whole = np.zeros((len(devices), len(folds)))
    states = {state: _HeldOut(devices, []) for state in ("before", "calibrated", "labelled")}
    for a, (train, test) in enumerate(folds):
        asked, held = rows.take(test).knowing(), [rows.applications[test[0]]]
        full = without(rows, family, held, seed=seed, resume=resume)[test]
        advance()
        for d, device in enumerate(devices):
            column = rows.platforms.index(device)
            measured = rows.log_seconds[test, column]
            whole[d, a] = _error(full[:, column], measured)
            states["labelled"].add(device, held[0], full[:, column] - measured)
            others = rows.with_platforms([name for name in rows.platforms if name != device])
            learnt = others.take(train)
            old = without(others, family, held, seed=seed, resume=resume)[test]
            advance()
            nothing = np.full(len(learnt), np.nan)
            speedup = np.delete(asked.log_reference[:, None] - old, others.reference_column, axis=1)
            moved = fit_transfer(targets(learnt), nothing, learnt.weights())
            suite = nothing.copy()
            chosen = most_telling(moved, targets(learnt), learnt.weights(), SUITE)
            suite[chosen] = rows.log_speedup[np.array(train)[chosen], column]
            for state, labels in (("before", nothing), ("calibrated", suite)):
                moved = fit_transfer(targets(learnt), labels, learnt.weights())
                guess = asked.log_reference - moved.predict(speedup)
                doubt = moved.deviation(speedup)
                states[state].add(device, held[0], guess - measured, doubt)
            for draw in range(DRAWS):
                order = _order(rows, train, np.random.default_rng([seed, draw, column]))
                for n, labels in enumerate(_labels(rows, train, column, order)):
                    moved = fit_transfer(targets(learnt), labels, learnt.weights())
                    guess = asked.log_reference - moved.predict(speedup)
                    errors[n // len(LABELS), draw, n % len(LABELS), d, a] = _error(guess, measured)
    return FewShotResult(
        family.name, family.what, _curve(errors[0]), _curve(errors[1]), float(whole.mean()),
        tuple(
            NewMachine(device, *(states[state].of(device) for state in states))
            for device in devices
        ),
    )  # fmt: skip


def most_telling(moved: Transfer, log_speedup: Floats, weights: Floats, count: int) -> list[int]:
    """The rows that, one after the other, leave least variance of all rows on a new device.

    Nothing but the known devices' ``log_speedup`` (rows x devices) is looked at.
    """
    scores, covariance = moved.basis.scores(log_speedup), moved.covariance
    found: list[int] = []
    for _ in range(min(count, len(scores))):
        across = scores @ covariance
        gain = weights @ (across @ scores.T) ** 2
        gain /= moved.noise + np.einsum("ij,ij->i", across, scores)
        gain[found] = -np.inf
        best = int(gain.argmax())
        found.append(best)
        learnt = across[best]
        covariance = covariance - np.outer(learnt, learnt) / (moved.noise + learnt @ scores[best])
    return found


@dataclass(frozen=True, slots=True)
class _HeldOut:
    """Errors of one situation by device and application, with the doubt that was stated."""

    devices: Sequence[str]
    parts: list[tuple[str, str, Floats, Floats]]

    def add(
        self, device: str, application: str, log_off: Floats, doubt: Floats | None = None
    ) -> None:
        stated = np.ones(len(log_off)) if doubt is None else doubt
        self.parts.append((device, application, np.abs(log_off), stated))

    def of(self, device: str) -> Knowledge:
        """Of all applications on a device, which weigh the same."""
        found = []
        for name, application, off, doubt in self.parts:
            if name != device:
                continue
            others = [p for p in self.parts if p[0] != device and p[1] != application]
            scores = np.concatenate([p[2] / p[3] for p in others])[:, None]
            owners = [p[1] for p in others for _ in p[2]]
            found.append(known(off, next_application_quantile(scores, owners) * doubt))
        return averaged(found)


def _folds(rows: Rows) -> Iterator[tuple[list[int], list[int]]]:
    """Training and test rows of each application that has rows that are not anchors."""
    anchor = is_anchor(rows)
    for train, held in by_application(rows, 0):
        if test := [i for i in held if not anchor[i]]:
            yield train, test


def _labels(
    rows: Rows, train: Sequence[int], column: int, order: Sequence[int]
) -> Iterator[Floats]:
    """Known log speedups of the new device: each of ``LABELS``, without and with anchors."""
    anchor = is_anchor(rows)
    real = rows.log_speedup[:, column]
    for signature in ([], [i for i in train if anchor[i]]):
        for count in LABELS:
            labels = np.full(len(rows), np.nan)
            chosen = [*signature, *order[:count]]
            labels[chosen] = real[chosen]
            yield labels[train]


def _order(rows: Rows, train: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Training rows in the order in which they are labelled: applications take turns."""
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
    """From draws x labels x devices x applications."""
    by_draw, by_device = errors.mean(axis=(2, 3)), errors.mean(axis=(0, 3))
    return Curve(
        error=tuple(by_draw.mean(axis=0).tolist()),
        low=tuple(by_draw.min(axis=0).tolist()),
        high=tuple(by_draw.max(axis=0).tolist()),
        worst_device=tuple(by_device.max(axis=1).tolist()),
    )
