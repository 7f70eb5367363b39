"""A cost model and its residual on a device that nobody measured.

Rates go by the ratio of the two roofs, the residual stays as it is.
"""

from __future__ import annotations

import numpy as np

from berth.predictor.families.training_step.predictor import roof_ratios
from berth.predictor.hardware import platforms
from berth.predictor.hardware.roofs import roof_of
from lab.ground.table import Floats
from lab.latency import timm_runs
from lab.latency.timm_devices import platform_of
from lab.steps import step_rows
from lab.steps.fit_steps import Learnt, fit
from lab.steps.step_rows import Steps


def cases() -> list[tuple[str, Steps, Steps]]:
    """(name, rows of the 3090, rows of the other)."""
    trained = step_rows.gpu()
    found = [
        ("training, 3090 -> one core of epyc-genoa-vm",
         trained[trained.runs.layout == "nchw"], step_rows.cpu())
    ]  # fmt: skip
    runs = timm_runs.runs()
    plain = (runs.precision == "amp") & (runs.layout == "nchw") & ~runs.compiled
    source = _newest(step_rows.of_timm(runs[plain & (runs.device == "3090")]))
    for device in ("5090", "pro6000maxq"):
        other = step_rows.of_timm(runs[plain & (runs.device == device)])
        found.append((f"inference as a stand-in, 3090 -> {device}", source, other))
    return found


def _newest(steps: Steps) -> Steps:
    """Return one row a graph: of the newest torch."""
    order = np.argsort(-steps.runs.torch, kind="stable")
    first = np.unique(steps.runs.graph[order], return_index=True)[1]
    return steps[np.sort(order[first])]


def moved(learnt: Learnt, source: Steps, asked: Steps) -> Floats:
    """[rows] log seconds: the source's rates by the ratio of roofs, and its residual."""
    rates = learnt.rates[str(source.setting[0])] * _ratios("3090", str(asked.runs.device[0]))
    own = Learnt({str(asked.setting[0]): rates}, None, None)
    return own.costs(asked) + _rest(learnt, source, asked)


def _rest(learnt: Learnt, source: Steps, steps: Steps) -> Floats:
    """Return the source's learners' residual, as if the rows were of the source."""
    name = str(source.setting[0])
    renamed = Learnt(
        dict.fromkeys(set(steps.setting.tolist()), learnt.rates[name]),
        learnt.trees, learnt.process,
    )  # fmt: skip
    return renamed.predict(steps) - renamed.costs(steps)


def _ratios(source: str, target: str) -> Floats:
    known = platforms.shipped()
    first, second = (roof_of(known[platform_of(one)], known, 1) for one in (source, target))
    return roof_ratios(first, second)


def off_elsewhere(seed: int) -> dict[str, Floats]:
    """Return by case the log of predicted over measured of each row, none of them a sample.

    Training was measured on one GPU; inference on two others is a stand-in. Of CPUs there is only
    the move from the GPU to our core.
    """
    return {
        name: moved(fit(source, seed=seed), source, target) - np.log(target.labels[:, 0])
        for name, source, target in cases()
    }


def moved_errors(seed: int) -> dict[str, Floats]:
    """Return by platform measured: |log predicted / measured| on others."""
    cpu, *gpus = (np.abs(off) for off in off_elsewhere(seed).values())
    return {"rtx-3090-24gb": np.concatenate(gpus), "epyc-genoa-vm": cpu}
