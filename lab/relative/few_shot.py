"""Curves of error against labels: each device in turn new, each application in turn unseen.

For a held-out application the family learns from the other applications on the other devices; of
the new device it has ``k`` workloads of those applications, drawn at random, and in one of two
curves also its times on the anchor kernels of those applications (the signature that stands in
for a benchmark run). Anchor kernels are in no test and no draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.evaluation import loaded
from berth.predictor.learning.relative.family import Entry, Family
from berth.predictor.learning.resume import Resume
from lab.published.xamm.anchors import is_anchor
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


@dataclass(frozen=True, slots=True)
class FewShotEvaluation:
    """All families."""

    data: str
    split: str
    labels: tuple[int, ...]
    draws: int
    results: tuple[FewShotResult, ...]
    left_out: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def evaluate_few_shot(
    rows: Rows,
    entries: Iterable[Entry],
    *,
    data: str,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> FewShotEvaluation:
    """Every family of ``entries``. ``advance`` is called once a fitted model, ``steps`` times."""
    families, left_out = loaded(entries)
    store = Resume() if resume is None else resume
    return FewShotEvaluation(
        data=data,
        split=SPLIT,
        labels=LABELS,
        draws=DRAWS,
        results=tuple(_one(rows, family, seed, store, advance) for family in families),
        left_out=left_out,
    )


def steps(rows: Rows, families: int) -> int:
    """How often ``evaluate_few_shot`` calls ``advance``."""
    return families * len(_tested(rows)) * len(rows.platforms)


def _one(
    rows: Rows, family: Family, seed: int, resume: Resume, advance: Callable[[], None]
) -> FewShotResult:
    devices = [name for name in rows.platforms if name != rows.reference]
    applications = _tested(rows)
    errors = np.zeros((2, DRAWS, len(LABELS), len(devices), len(applications)))
    whole = np.zeros((len(devices), len(applications)))
    for a, application in enumerate(applications):
        train, test = _split(rows, application)
        asked = rows.take(test).knowing()
        full = without(rows, family, [application], seed=seed, resume=resume)[test]
        advance()
        for d, device in enumerate(devices):
            column = rows.platforms.index(device)
            measured = rows.log_seconds[test, column]
            whole[d, a] = _error(full[:, column], measured)
            others = _without(rows, device)
            learnt = others.take(train)
            old = without(others, family, [application], seed=seed, resume=resume)[test]
            advance()
            reference = others.reference_column
            speedup = np.delete(asked.log_reference[:, None] - old, reference, axis=1)
            for draw in range(DRAWS):
                order = _order(rows, train, np.random.default_rng([seed, draw, column]))
                for n, told in enumerate(_labels(rows, train, column, order)):
                    moved = fit_transfer(targets(learnt), told, learnt.weights())
                    guess = asked.log_reference - moved.predict(speedup)
                    errors[n // len(LABELS), draw, n % len(LABELS), d, a] = _error(guess, measured)
    return FewShotResult(
        family=family.name,
        what=family.what,
        plain=_curve(errors[0]),
        signed=_curve(errors[1]),
        all_labels=float(whole.mean()),
    )


def _labels(rows: Rows, train: list[int], column: int, order: list[int]) -> list[Floats]:
    """Log speedups of the new device as far as they are told: each of ``LABELS``, twice."""
    anchor = is_anchor(rows)
    anchors = [i for i in train if anchor[i]]
    real = rows.log_speedup[:, column]
    found = []
    for signature in ([], anchors):
        for count in LABELS:
            told = np.full(len(rows), np.nan)
            chosen = [*signature, *order[:count]]
            told[chosen] = real[chosen]
            found.append(told[train])
    return found


def _order(rows: Rows, train: list[int], rng: np.random.Generator) -> list[int]:
    """Training rows in the order in which they are labelled: applications take turns."""
    anchor = is_anchor(rows)
    by_application: dict[str, list[int]] = {}
    for row in train:
        if not anchor[row]:
            by_application.setdefault(rows.applications[row], []).append(row)
    queues = {name: rng.permutation(queue).tolist() for name, queue in by_application.items()}
    found: list[int] = []
    while len(found) < max(LABELS) and any(queues.values()):
        for name in rng.permutation(sorted(queues)).tolist():
            if queues[name]:
                found.append(int(queues[name].pop()))
    return found


def _tested(rows: Rows) -> list[str]:
    """Applications with rows that are not anchors."""
    anchor = is_anchor(rows)
    return sorted({a for a, left in zip(rows.applications, anchor, strict=True) if not left})


def _split(rows: Rows, application: str) -> tuple[list[int], list[int]]:
    anchor = is_anchor(rows)
    train = [i for i, name in enumerate(rows.applications) if name != application]
    test = [i for i, name in enumerate(rows.applications) if name == application and not anchor[i]]
    return train, test


def _without(rows: Rows, device: str) -> Rows:
    return rows.with_platforms([name for name in rows.platforms if name != device])


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
