"""Regret of the chosen platform after probes: test runs on platforms chosen in several ways."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.joint import Joint, advise
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.family import by_application
from berth.predictor.learning.relative.figures import per_application
from berth.predictor.learning.relative.trust import fit_residuals
from lab.relative.nested import Fold

WAYS = (
    "no probe",
    "one, advised",
    "one, at random",
    "two, advised at once",
    "two, advised one after the other",
    "two, at random",
    "two, always the pair best on training applications",
    "two, always the pair best in hindsight",
)


@dataclass(frozen=True, slots=True)
class ProbingFigures:
    """Regret of the chosen platform for each way of probing (``WAYS``).

    Regret is the time on the chosen platform / the least time. Geometric means are over the rows of
    each application, then over applications.
    """

    regret: dict[str, float]
    worst_regret: dict[str, float]
    """Regret of the worst application."""
    expected_now: float
    """Regret that the joint distribution expects without a probe (geometric mean)."""
    expected_one: float
    expected_two: float
    """Regret expected after the advised probes, to compare with ``regret``."""
    pairs: dict[str, int]
    """The pairs advised most often (one after the other), with their numbers of rows."""


def probing_figures(rows: Rows, folds: Sequence[Fold], *, seed: int = 0) -> ProbingFigures:
    """Return the figures of every way of probing, over all held-out rows."""
    targets = [name for name in rows.platforms if name != rows.reference]
    pairs = list(combinations(targets, 2))
    log_regret, expected = np.zeros((len(WAYS), len(rows))), np.zeros((3, len(rows)))
    of_pairs = np.zeros((len(rows), len(pairs)))
    count: Counter[str] = Counter()
    for fold in folds:
        best_known = _best_on_training(fold, pairs)
        joints = fold.trust.joints(fold.asked, fold.log_predicted)
        for joint, index in zip(joints, fold.index, strict=True):
            times = dict(zip(rows.platforms, rows.log_seconds[index].tolist(), strict=True))
            advice = advise(joint, seed=seed)
            if advice.one is None or advice.two is None:
                continue
            first = _after(joint, times, advice.one.platforms)
            second = advise(first, seed=seed).one
            then = () if second is None else second.platforms
            count[" + ".join(sorted((*advice.one.platforms, *then)))] += 1
            of_pairs[index] = [_regret(_after(joint, times, pair), times) for pair in pairs]
            singles = [_regret(_after(joint, times, (name,)), times) for name in targets]
            log_regret[:7, index] = (
                _regret(joint, times),
                _regret(first, times),
                float(np.mean(singles)),
                _regret(_after(joint, times, advice.two.platforms), times),
                _regret(_after(first, times, then), times),
                float(of_pairs[index].mean()),
                float(of_pairs[index][best_known]),
            )
            regrets = advice.regret, advice.one.regret, advice.two.regret
            expected[:, index] = [math.log(value) for value in regrets]
    log_regret[7] = of_pairs[:, _least(of_pairs, rows.applications)]

    def averaged(values: Floats) -> Floats:
        return per_application(values, rows.applications, np.mean)

    by_way = {way: averaged(regret) for way, regret in zip(WAYS, log_regret, strict=True)}
    now, one, two = (float(np.exp(averaged(each).mean())) for each in expected)
    return ProbingFigures(
        regret={way: float(np.exp(values.mean())) for way, values in by_way.items()},
        worst_regret={way: float(np.exp(values.max())) for way, values in by_way.items()},
        expected_now=now,
        expected_one=one,
        expected_two=two,
        pairs=dict(count.most_common(5)),
    )


def _after(joint: Joint, times: Mapping[str, float], probed: Sequence[str]) -> Joint:
    return joint.knowing({name: times[name] for name in probed})


def _regret(joint: Joint, times: Mapping[str, float]) -> float:
    picked = times[joint.platforms[int(joint.mean.argmin())]]
    return picked - min(times.values())


def _least(of_pairs: Floats, applications: Sequence[str]) -> int:
    """Return the number of the pair with the least mean over applications (rows x pairs)."""
    means = [per_application(column, applications, np.mean).mean() for column in of_pairs.T]
    return int(np.argmin(means))


def _best_on_training(fold: Fold, pairs: Sequence[tuple[str, str]]) -> int:
    """Return the number of the pair with the least regret on the training applications.

    Each training application is held out in turn.
    """
    train = fold.train
    found = np.zeros((len(train), len(pairs)))
    for rest, held in by_application(train, 0):
        trust = fit_residuals(train.take(rest), fold.log_inner[rest])
        joints = trust.joints(train.take(held).knowing(), fold.log_inner[held])
        for joint, row in zip(joints, held, strict=True):
            times = dict(zip(train.platforms, train.log_seconds[row].tolist(), strict=True))
            found[row] = [_regret(_after(joint, times, pair), times) for pair in pairs]
    return _least(found, train.applications)
