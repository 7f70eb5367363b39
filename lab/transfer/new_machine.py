"""The shipped bundle on a machine that is in none of its data: our own runs on one core.

Of the committed runs (``lab/graphs/data``) those of onnxruntime; k of them, drawn at random or
advised, are given, and all runs of other models are predicted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from berth.predictor.families.graph.transfer import bundle as bundles
from berth.predictor.families.graph.transfer.cases import Codes
from berth.predictor.hardware import platforms
from berth.predictor.learning.graphs.adapt import rounded, samples_of
from berth.predictor.learning.graphs.posterior import fit_cases
from lab.graphs.model_runs import runs
from lab.ground.figures import Figures, Point, curve, figures
from lab.latency.timm_devices import OWN_CPU
from lab.latency.timm_runs import graphs

SAMPLES = (0, 1, 2, 4, 8, 16, 32)
DRAWS = 10
SPLIT = (
    f"runs of onnxruntime on one core of {OWN_CPU}, in none of the bundle's data; k runs given "
    f"({DRAWS} draws, or advised), all runs of other models predicted"
)


def evaluate_new_machine(
    folder: Path = bundles.DEFAULT_TRANSFER, *, seed: int = 0
) -> dict[str, tuple[Point, ...]]:
    """Points for each of ``SAMPLES``, of runs drawn and of runs advised.

    Raises DocumentError, ToolMissing.
    """
    known, every = platforms.shipped(), graphs()
    works = {name: every.work[place] for name, place in every.places.items()}
    mine = [run for run in runs() if run.setting.framework == "onnxruntime"]
    measured = samples_of(mine, lambda run: works.get(run.model.name), known[OWN_CPU], known)
    learnt, residual, noise, _ = bundles.read(folder)
    after = fit_cases(
        learnt.cases, residual, learnt.kernel, learnt.offset, noise=noise,
        own=learnt.own[learnt.cases.device],
    )  # fmt: skip
    new = rounded(replace(
        measured.cases, device=np.full(len(measured), len(learnt.devices)),
        stack=measured.cases.stack + len(learnt.stacks),
        model=measured.cases.model + learnt.cases.model.max() + 1,
    ))  # fmt: skip
    joint, model = after.joint(new), np.array(measured.names)

    def tested(given: Codes) -> Figures:
        rest = ~np.isin(model, model[given])
        guess = joint.moved(given, measured.residual[given]).mean
        return figures(measured.residual[rest], guess[rest], model[rest])

    def drawn(count: int, draw: int) -> Figures:
        return tested(np.random.default_rng([seed, draw]).permutation(len(new))[:count])

    everything = np.arange(len(new))
    return {
        "drawn": curve(SAMPLES, DRAWS, drawn),
        "advised": curve(SAMPLES, 1, lambda count, _: tested(joint.advised(everything, count))),
    }
