"""The shipped bundle on a machine that is in none of its data: our own runs on one core.

Of the committed runs (``training/graphs/data``) those of onnxruntime; k of them, drawn at random
or advised, are given, and all runs of other models are predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from berth.pilot.dl.document import ModelRun
from berth.predictor.families.graph.latency.features import GraphWork
from berth.predictor.families.graph.latency.transfer import bundle as bundles
from berth.predictor.families.graph.latency.transfer.cases import Codes
from berth.predictor.hardware import platforms
from berth.predictor.learning.graphs.adapt import rounded, samples_of
from berth.predictor.learning.graphs.posterior import fit_cases
from lab.graphs.model_runs import runs
from lab.latency.data import graphs

PLATFORM = "epyc-genoa-vm"
SAMPLES = (0, 1, 2, 4, 8, 16, 32)
DRAWS = 10
SPLIT = (
    f"runs of onnxruntime on one core of {PLATFORM}, in none of the bundle's data; k runs given "
    f"({DRAWS} draws, or advised), all runs of other models predicted"
)


@dataclass(frozen=True)
class OwnRuns:
    """Figures with so many samples; of draws the mean, and the least and greatest share."""

    samples: int
    mape: float
    median: float
    within: float
    within_low: float
    within_high: float
    advised_mape: float
    advised_within: float


def evaluate_own_runs(
    folder: Path = bundles.DEFAULT_TRANSFER, *, seed: int = 0
) -> tuple[OwnRuns, ...]:
    """One entry for each of ``SAMPLES``. Raises DocumentError, ToolMissing."""
    known = platforms.shipped()
    every = graphs()
    works = {
        f"{one.model}_{one.image_size}": work
        for one, work in zip(every.architectures, every.work, strict=True)
    }

    def find(run: ModelRun) -> GraphWork | None:
        return works.get(run.model.name)

    mine = [run for run in runs() if run.setting.framework == "onnxruntime"]
    measured = samples_of(mine, find, known[PLATFORM], known)
    belief, residual, noise, _ = bundles.read(folder)
    after = fit_cases(
        belief.cases, residual, belief.kernel, belief.offset, noise=noise,
        own=belief.own[belief.cases.device],
    )  # fmt: skip
    new = rounded(replace(
        measured.cases, device=np.full(len(measured), len(belief.devices)),
        stack=measured.cases.stack + len(belief.stacks),
        model=measured.cases.model + belief.cases.model.max() + 1,
    ))  # fmt: skip
    joint = after.joint(new)
    model = np.array(measured.names)

    def errors(given: Codes) -> np.ndarray:
        rest = ~np.isin(model, model[given])
        guess = joint.moved(given, measured.residual[given]).mean
        return np.abs(np.expm1(guess - measured.residual))[rest]

    found = []
    for count in SAMPLES:
        draws = [
            errors(np.random.default_rng([seed, draw]).permutation(len(new))[:count])
            for draw in range(DRAWS if count else 1)
        ]
        advised = errors(joint.advised(np.arange(len(new)), count))
        within = [float((one <= 0.1).mean()) for one in draws]
        found.append(
            OwnRuns(
                count,
                float(np.mean([one.mean() for one in draws])),
                float(np.mean([np.median(one) for one in draws])),
                float(np.mean(within)), min(within), max(within),
                float(advised.mean()), float((advised <= 0.1).mean()),
            )
        )  # fmt: skip
    return tuple(found)
