"""A cost model and its residual on a device that nobody, or hardly anybody, measured.

Rates go by the ratio of the two roofs, the residual stays as it is; a few samples redraw the rates,
and what is then left of them is a process's.
"""

from __future__ import annotations

import numpy as np

from berth.predictor.families.training_step.predictor import roof_ratios
from berth.predictor.families.training_step.step_costs import cost_seconds, terms
from berth.predictor.hardware import platforms
from berth.predictor.hardware.roofs import roof_of
from lab.ground.table import Floats
from lab.latency import timm_runs
from lab.latency.timm_devices import platform_of
from lab.steps import step_rows
from lab.steps.fit_steps import Learnt, Process, fit, fit_rates
from lab.steps.step_rows import Steps

PULL = 2.0
"""Rows that each starting rate weighs."""


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


def moved(learnt: Learnt, source: Steps, few: Steps, asked: Steps) -> Floats:
    """[rows] log seconds: the source's rates by the ratio of roofs, drawn to the few samples.

    The source's residual is kept; what is then left of the samples is a process's.
    """
    device = str(asked.runs.device[0])
    start = learnt.rates[str(source.setting[0])] * _ratios("3090", device)
    rates = start
    if len(few):
        table = terms(few.features, few.batch)
        seconds = few.labels[:, 0] / np.exp(_rest(learnt, source, few))
        middle = np.median(seconds / cost_seconds(table, start))
        rates = fit_rates(table, seconds, start * middle, PULL)
    own = Learnt({str(asked.setting[0]): rates}, None, None)
    found = own.costs(asked) + _rest(learnt, source, asked)
    if len(few):
        left = np.log(few.labels[:, 0]) - own.costs(few) - _rest(learnt, source, few)
        found = found + Process(own.features(few), left)(own.features(asked))
    return found


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


def moved_errors(seed: int) -> dict[str, Floats]:
    """Return, by platform measured: |log predicted / measured| on others, without a sample of them.

    Of GPUs by inference on two of them, as a stand-in: training was measured on one. Of CPUs by
    the only move there is: from the GPU to our core.
    """
    off = {}
    for name, source, target in cases():
        guess = moved(fit(source, seed=seed), source, target[np.arange(0)], target)
        off[name] = np.abs(guess - np.log(target.labels[:, 0]))
    cpu, *gpus = off.values()
    return {"rtx-3090-24gb": np.concatenate(gpus), "epyc-genoa-vm": cpu}
