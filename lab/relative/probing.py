"""What probes buy: regret of the pick after runs on platforms chosen in several ways."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.joint import Joint
from berth.predictor.families.relative.probes import advise
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Trust
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
    """Regret of the pick by way of probing; rows of an application first, then applications."""

    regret: dict[str, float]
    worst_regret: dict[str, float]
    """Of the worst application."""
    told_now: float
    """Regret that the joint distribution expects without a probe (geometric mean)."""
    told_one: float
    told_two: float
    """The same after the advised probes: to be compared with what then happened."""
    pairs: dict[str, int]
    """The pairs advised most often (one after the other), and for how many rows."""


def probing_figures(
    rows: Rows, folds: Sequence[Fold], trusts: Sequence[Trust], *, seed: int = 0
) -> ProbingFigures:
    """Every way on every held-out row."""
    log_regret = np.zeros((len(WAYS), len(rows)))
    targets = [name for name in rows.platforms if name != rows.reference]
    pairs = list(itertools.combinations(targets, 2))
    of_pairs = np.zeros((len(rows), len(pairs)))
    told = np.zeros((3, len(rows)))
    count: dict[str, int] = {}
    for fold, trust in zip(folds, trusts, strict=True):
        best_known = _best_on_training(fold, pairs)
        joints = trust.joints(fold.asked, fold.log_predicted)
        for joint, index in zip(joints, fold.index, strict=True):
            times = dict(zip(rows.platforms, rows.log_seconds[index].tolist(), strict=True))
            advice = advise(joint, seed=seed)
            if advice.one is None or advice.two is None:
                continue
            first = _after(joint, times, advice.one.platforms)
            second = advise(first, seed=seed).one
            then = () if second is None else second.platforms
            chain = (*advice.one.platforms, *then)
            count[" + ".join(sorted(chain))] = count.get(" + ".join(sorted(chain)), 0) + 1
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
            told[:, index] = [math.log(v) for v in _told(advice.regret, advice.one, advice.two)]
    apps = rows.applications
    means = [per_application(of_pairs[:, n], apps, np.mean).mean() for n in range(len(pairs))]
    log_regret[7] = of_pairs[:, int(np.argmin(means))]
    by_way = {w: per_application(r, apps, np.mean) for w, r in zip(WAYS, log_regret, strict=True)}
    expected = [float(np.exp(per_application(t, apps, np.mean).mean())) for t in told]
    return ProbingFigures(
        regret={way: float(np.exp(values.mean())) for way, values in by_way.items()},
        worst_regret={way: float(np.exp(values.max())) for way, values in by_way.items()},
        told_now=expected[0],
        told_one=expected[1],
        told_two=expected[2],
        pairs=dict(sorted(count.items(), key=lambda entry: -entry[1])[:5]),
    )


def _told(now: float, *probes: object) -> tuple[float, ...]:
    return (now, *(float(getattr(probe, "regret", now)) for probe in probes))


def _after(joint: Joint, times: dict[str, float], probed: Sequence[str]) -> Joint:
    return joint.knowing({name: times[name] for name in probed})


def _regret(joint: Joint, times: dict[str, float]) -> float:
    picked = times[joint.platforms[int(joint.mean.argmin())]]
    return picked - min(times.values())


def _best_on_training(fold: Fold, pairs: Sequence[tuple[str, str]]) -> int:
    """The pair with the least regret over the training applications, each held out in turn."""
    names = np.array(fold.train.applications)
    found: Floats = np.zeros((len(names), len(pairs)))
    for name in sorted(set(fold.train.applications)):
        held, rest = np.flatnonzero(names == name), np.flatnonzero(names != name)
        trust = fit_residuals(fold.train.take(rest.tolist()), fold.log_inner[rest])
        asked = fold.train.take(held.tolist()).knowing()
        for joint, row in zip(trust.joints(asked, fold.log_inner[held]), held, strict=True):
            log_seconds = fold.train.log_seconds[row].tolist()
            times = dict(zip(fold.train.platforms, log_seconds, strict=True))
            found[row] = [_regret(_after(joint, times, pair), times) for pair in pairs]
    apps = fold.train.applications
    means = [per_application(found[:, n], apps, np.mean).mean() for n in range(len(pairs))]
    return int(np.argmin(means))
