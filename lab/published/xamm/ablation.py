"""The ablations: each application held out in turn, every way through xAMM on the same folds.

Anchor kernels are in no test; where an application is held out, its anchors are in no signature.
Learnt in log space; figures are of the runtime ratio t_target / t_source (the paper's relR).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.metrics import r2
from berth.predictor.learning.relative.splits import by_application
from berth.predictor.learning.resume import Resume
from lab.published.relative_networks.export import apply
from lab.published.xamm.anchors import is_anchor, signatures
from lab.published.xamm.choices import Choices, Machines
from lab.published.xamm.downstream import train
from lab.published.xamm.embeddings import learn
from lab.published.xamm.machines import MachineModels, learn_machines, mean_speedups
from lab.published.xamm.plan import Scenario, tried
from lab.published.xamm.samples import Samples, joined, one_hot, samples_of


@dataclass(frozen=True, slots=True)
class Score:
    """One way through xAMM in one scenario: figures of each seed, applications averaged."""

    choices: Choices
    mape: tuple[float, ...]
    """Mean over applications of the mean ``|predicted / measured - 1|``, one a seed."""
    median_error: tuple[float, ...]
    """Mean over applications of the median."""
    r2_log: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """All scores of one scenario."""

    scenario: Scenario
    samples: int
    """Held-out (workload, source, target) triples."""
    scores: tuple[Score, ...]

    def score(self, choices: Choices) -> Score:
        """Of one way. Raises StopIteration for one that was not tried."""
        return next(s for s in self.scores if s.choices == choices)


def steps(rows: Rows, seeds: Sequence[int]) -> int:
    """How often ``ablate`` will call ``advance`` for one scenario."""
    return len(set(rows.applications)) * len(seeds)


def ablate(
    rows: Rows,
    scenario: Scenario,
    *,
    seeds: Sequence[int],
    resume: Resume | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Found:
    """Every way of ``plan.tried`` in ``scenario``; folds found in ``resume`` are not redone."""
    store, ways, anchored = resume or Resume(), tried(scenario), is_anchor(rows)
    measured: list[Floats] = []
    guesses: list[Floats] = []
    for _, application in by_application(rows, 0):
        held = [i for i in application if not anchored[i]]
        test = samples_of(rows.take(held), scenario.sources, scenario.targets)
        known = np.isfinite(test.log_speedup)
        made = []
        for seed in seeds:
            key = f"xamm/{rows.digest()}/{scenario}/{ways}/{held}/{seed}"
            found = store.array(key, partial(_fold, rows, scenario, held, test, seed))
            made.append(found[:, known])
            advance()
        measured.append(test.log_speedup[known])
        guesses.append(np.array(made))
    scores = [
        _score(way, measured, [guess[:, w] for guess in guesses]) for w, way in enumerate(ways)
    ]
    return Found(scenario, sum(map(len, measured)), tuple(scores))


def _score(way: Choices, measured: Sequence[Floats], guesses: Sequence[Floats]) -> Score:
    """Of each application: measured [n] and guesses [seeds, n] of log speedups."""
    pairs = list(zip(measured, guesses, strict=True))
    errors = [np.abs(np.expm1(real - guess)) for real, guess in pairs]
    every, joint = np.concatenate(measured), np.concatenate(guesses, axis=1)
    return Score(
        way,
        tuple(np.mean([error.mean(axis=1) for error in errors], axis=0).tolist()),
        tuple(np.mean([np.median(error, axis=1) for error in errors], axis=0).tolist()),
        tuple(r2(every, guess) for guess in joint),
    )


def _fold(rows: Rows, scenario: Scenario, held: list[int], test: Samples, seed: int) -> Floats:
    """Ways x samples x targets: log speedups of the held-out application."""
    out = {rows.applications[i] for i in held}
    rest = rows.take([i for i, name in enumerate(rows.applications) if name not in out])
    if not scenario.unseen_target:
        return _predictions(rest, scenario, test, seed)
    found = np.full((len(tried(scenario)), *test.log_speedup.shape), np.nan)
    for column, target in enumerate(scenario.targets):
        found[:, :, column] = _predictions(rest, scenario, test, seed, without=target)[:, :, column]
    return found


def _predictions(
    rest: Rows, scenario: Scenario, test: Samples, seed: int, without: str | None = None
) -> Floats:
    hidden = np.array([name == without for name in rest.platforms])
    shown = replace(rest, log_seconds=np.where(hidden, np.nan, rest.log_seconds))
    samples = samples_of(shown, scenario.sources, scenario.learnt)
    ways = tried(scenario)
    embedded: dict[str, tuple[Floats, Floats]] = {}
    for kind in dict.fromkeys(way.embedding for way in ways):
        embedder = learn(kind, samples.features, samples.log_speedup, seed)
        embedded[kind] = apply(embedder, samples.features), apply(embedder, test.features)
    labels = mean_speedups(shown.log_seconds, shown.platforms, shown.applications)
    machines = learn_machines(signatures(rest), labels, seed)
    found = []
    for way in ways:
        vectors = _vectors(way, machines, samples)
        learnt, asked = embedded[way.embedding]
        model = train(way.downstream, samples, learnt, vectors, seed)
        inputs = joined(asked, test.sources, test.targets, vectors)
        guess = np.asarray(model.predict(inputs), dtype=np.float64)
        found.append(guess.reshape(test.log_speedup.shape))
    return np.array(found)


def _vectors(
    way: Choices, machines: MachineModels, samples: Samples
) -> Mapping[str, Floats] | None:
    if way.machines is Machines.NONE:
        return None
    if way.machines is Machines.NAMES:
        return one_hot(sorted({*samples.sources, *samples.targets}))
    return machines.vectors(way.aggregation, way.scale)
