"""Few samples of another device: what pre-training and another device's labels are worth there.

3090 training -> our CPU's training; and, as a stand-in for a second GPU's training, which nobody
measured, inference on the 3090 -> inference on the 5090 and the PRO 6000. The k samples are of
different architectures; rows of those architectures are not tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lab.ground.figures import Figures, combined, figures
from lab.ground.splits import few
from lab.ground.table import Floats
from lab.published.trappm.step_regressor import Design
from lab.steps.fit_steps import fit
from lab.steps.moved_rates import moved
from lab.steps.step_methods import Encoded, predicted_by, trappm
from lab.steps.step_rows import Steps

SAMPLES = (0, 8, 32, 128)
DRAWS = 2
FINE = Design(training=replace(Design().training, epochs=40, learning_rate=2e-3))
_LEAST_TEST = 30
OURS = "cost model and residual of the 3090, rates redrawn"
NETWORK = "TraPPM pre-trained, from the 3090's weights"


def transfer(
    case: tuple[str, Steps, Steps],
    encoder: Encoded,
    *,
    seed: int,
    advance: Callable[..., None] = lambda *_: None,
) -> list[dict[str, Any]]:
    """Return errors of the step time by k and method of one case (name, source, target), means over
    draws."""
    name, source, target = case
    learnt, embeddings = fit(source, seed=seed), encoder.embeddings
    began = trappm(source, embeddings, seed=seed)

    def methods(given: Steps, asked: Steps) -> dict[str, Floats]:
        network = began
        if len(given):
            network = trappm(given, embeddings, seed=seed, start=began, design=FINE)
        return {
            OURS: moved(learnt, source, given, asked),
            NETWORK: predicted_by(network, asked, embeddings)[:, 0],
        }

    rows = []
    for k in SAMPLES:
        drawn: dict[str, list[Figures]] = {}
        for number in range(DRAWS if k else 1):
            everything = np.arange(len(target))
            fold = few(target.runs.architecture, everything, k, seed + number)
            if len(fold.test) < _LEAST_TEST:
                continue
            asked = target[fold.test]
            for method, guess in methods(target[fold.train], asked).items():
                found = figures(np.log(asked.labels[:, 0]), guess, asked.runs.model)
                drawn.setdefault(method, []).append(found)
            advance(f"{name}, {k} samples, draw {number + 1}")
        for method, each in drawn.items():
            mean = combined(each)
            rows.append({"case": name, "k": k, "method": method, "rows": mean.rows,
                         "mape": mean.mean_error, "median": mean.median_error})  # fmt: skip
    return rows
