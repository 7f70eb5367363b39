"""Few samples of another device: what pre-training and another device's labels are worth there.

3090 training -> our CPU's training; and, as a stand-in for a second GPU's training, which nobody
measured, inference on the 3090 -> inference on the 5090 and the PRO 6000. The k samples are of
different architectures; rows of those architectures are not tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from berth.predictor.families.graph.latency.features import Floats
from lab.ground.table import Places
from lab.published.trappm.regressor import Design
from lab.steps.family import fit
from lab.steps.labels import Steps
from lab.steps.moved import cases, moved
from lab.steps.training_parts import (
    ABSENT,
    PRETRAINED,
    Session,
    inputs,
    said_by,
    trappm,
)

SAMPLES = (0, 8, 32, 128)
DRAWS = 2
FINE = Design(epochs=40, learning_rate=2e-3)
_LEAST_TEST = 30
OURS, OWN = "law and residual of the 3090, rates redrawn", "law alone, own samples"
NETWORKS = {
    (PRETRAINED, True): "TraPPM pre-trained, from the 3090's weights",
    (ABSENT, True): "SAGE regressor, from the 3090's weights",
    (PRETRAINED, False): "TraPPM pre-trained, own samples alone",
    (ABSENT, False): "SAGE regressor, own samples alone",
}


def draw(steps: Steps, k: int, seed: int) -> tuple[Places, Places]:
    """(given, test) rows."""
    order = np.random.default_rng(seed).permutation(len(steps))
    first = np.unique(steps.runs.architecture[order], return_index=True)[1]
    given = np.sort(order[np.sort(first)[:k]])
    test = ~np.isin(steps.runs.architecture, steps.runs.architecture[given])
    return given, np.flatnonzero(test)


def transfer(session: Session) -> list[dict[str, Any]]:
    """Mean and median errors of the step time by case, k and method, means over draws."""
    told = []
    for place, (name, source, target) in enumerate(cases()):

        def one(
            source: Steps = source, target: Steps = target, name: str = name
        ) -> list[dict[str, Any]]:
            return _case(name, source, target, session)

        told += session.kept(f"transfer {place}", one)
    return told


def _case(name: str, source: Steps, target: Steps, session: Session) -> list[dict[str, Any]]:
    seed = session.seed
    learnt = fit(source, seed=seed)
    known = {arm: inputs(session, arm) for arm in (PRETRAINED, ABSENT)}
    began = {arm: trappm(source, one, seed=seed) for arm, one in known.items()}
    rows = []
    for k in SAMPLES:
        errors: dict[str, list[Floats]] = {}
        tested = 0
        for number in range(DRAWS if k else 1):
            given, test = draw(target, k, seed + number)
            if len(test) < _LEAST_TEST:
                continue
            few, asked = target[given], target[test]
            tested = len(test)
            said = {OURS: moved(learnt, source, few, asked)}
            if k:
                said[OWN] = fit(few, seed=seed, learners=()).predict(asked)
            for (arm, from_source), method in NETWORKS.items():
                if k:
                    start = began[arm] if from_source else None
                    network = trappm(few, known[arm], seed=seed, start=start, design=FINE)
                elif from_source:
                    network = began[arm]
                else:
                    continue
                said[method] = said_by(network, asked)[:, 0]
            for method, guess in said.items():
                error = np.abs(np.exp(guess) / asked.labels[:, 0] - 1)
                errors.setdefault(method, []).append(error)
            session.advance(f"{name}, {k} samples, draw {number + 1}")
        rows += [
            {"case": name, "k": k, "method": method, "rows": tested,
             "mape": float(np.mean([e.mean() for e in all_of])),
             "median": float(np.mean([np.median(e) for e in all_of]))}
            for method, all_of in errors.items()
        ]  # fmt: skip
    return rows
