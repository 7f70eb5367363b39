"""A law and its residual on a device that nobody, or hardly anybody, measured.

Rates go by the ratio of the two roofs, the residual stays as it is; a few samples redraw the rates,
and what is then left of them is a process's.
"""

from __future__ import annotations

import numpy as np

from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.families.training_step.law import law_seconds, terms
from berth.predictor.families.training_step.predictor import roof_ratios
from berth.predictor.hardware import platforms
from berth.predictor.hardware.roofs import roof_of
from lab.latency import timm_runs as data
from lab.steps import labels
from lab.steps.family import Learnt, Process, fit, fit_rates
from lab.steps.labels import Steps

PULL = 2.0
"""Rows that each starting rate weighs."""
_PLATFORM = {
    "3090": "rtx-3090-24gb", "5090": "rtx-5090-32gb", "pro6000maxq": "rtx-pro-6000-maxq-96gb",
    "epyc-genoa-vm": "epyc-genoa-vm",
}  # fmt: skip


def cases() -> list[tuple[str, Steps, Steps]]:
    """(name, rows of the 3090, rows of the other)."""
    trained = labels.gpu()
    found = [
        ("training, 3090 -> one core of epyc-genoa-vm",
         trained[trained.runs.layout == "nchw"], labels.cpu())
    ]  # fmt: skip
    runs = data.runs()
    plain = (runs.precision == "amp") & (runs.layout == "nchw") & ~runs.compiled
    source = _newest(labels.of_timm(runs[plain & (runs.device == "3090")]))
    for device in ("5090", "pro6000maxq"):
        other = labels.of_timm(runs[plain & (runs.device == device)])
        found.append((f"inference as a stand-in, 3090 -> {device}", source, other))
    return found


def _newest(steps: Steps) -> Steps:
    """One row a graph: of the newest torch."""
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
        table = terms(few.features, few.runs.batch.astype(float))
        seconds = few.labels[:, 0] / np.exp(_rest(learnt, source, few))
        middle = np.median(seconds / law_seconds(table, start))
        rates = fit_rates(table, seconds, start * middle, PULL)
    own = Learnt({str(asked.setting[0]): rates}, None, None)
    found = own.law(asked) + _rest(learnt, source, asked)
    if len(few):
        left = np.log(few.labels[:, 0]) - own.law(few) - _rest(learnt, source, few)
        found = found + Process(own.features(few), left)(own.features(asked))
    return found


def _rest(learnt: Learnt, source: Steps, steps: Steps) -> Floats:
    """What the source's learners say beyond its law, as if the rows were of the source."""
    name = str(source.setting[0])
    renamed = Learnt(
        dict.fromkeys(set(steps.setting.tolist()), learnt.rates[name]),
        learnt.trees, learnt.process,
    )  # fmt: skip
    return renamed.predict(steps) - renamed.law(steps)


def _ratios(source: str, target: str) -> Floats:
    known = platforms.shipped()
    first, second = (roof_of(known[_PLATFORM[one]], known, 1) for one in (source, target))
    return roof_ratios(first, second)


def moved_errors(seed: int) -> dict[str, Floats]:
    """By platform measured: |log predicted / measured| on others, without a sample of them.

    Of GPUs by inference on two of them, as a stand-in: training was measured on one. Of CPUs by
    the only move there is: from the GPU to our core.
    """
    off = {}
    for name, source, target in cases():
        guess = moved(fit(source, seed=seed), source, target[np.arange(0)], target)
        off[name] = np.abs(guess - np.log(target.labels[:, 0]))
    cpu, *gpus = off.values()
    return {"rtx-3090-24gb": np.concatenate(gpus), "epyc-genoa-vm": cpu}
