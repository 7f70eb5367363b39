"""Predict times on new platforms and on platforms with a site's own runs, by transfer from
others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from berth.pilot.platform import Platform
from berth.predictor.core.intervals import around
from berth.predictor.families.graph.latency.features import work_of
from berth.predictor.families.graph.latency.predictor import BATCH_SLACK
from berth.predictor.families.graph.sources import NEAREST, TRANSFER, Time
from berth.predictor.families.graph.transfer.bundle import DEFAULT_TRANSFER, load
from berth.predictor.families.graph.transfer.cases import stacked
from berth.predictor.families.graph.transfer.posterior import TransferPosterior
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roof_of

_HALF = (Numbers.FP16, Numbers.BF16)


@cache
def shared(folder: Path = DEFAULT_TRANSFER) -> TransferPosterior:
    """Return the posterior of a bundle, one per operating-system process. Raises DocumentError."""
    return load(folder)


def transferred(
    graph: ModelGraph,
    places: Sequence[Roof],
    known: Mapping[str, Platform],
    numbers: Numbers,
    folder: Path | None = None,
) -> Mapping[str, Sequence[Time]]:
    """Return predicted times by platform, from the Gaussian process and the nearest measured GPU.

    On a CPU with the site's own runs, the time is for the number of threads of these runs. Omitted
    are
    unmeasured GPUs in other precisions than fp16 and bf16, and measured devices in precisions that
    were
    not measured there.
    """
    posterior = shared() if folder is None else shared(folder)
    answered = [place for place in places if _answers(posterior, place, numbers)]
    if not answered:
        return {}
    work, batch = work_of(graph), max(graph.batch, 1)
    roofs = [
        roof_of(known[place.platform], known, posterior.threads[place.platform])
        if place.platform in posterior.threads else place
        for place in answered
    ]  # fmt: skip
    cases = stacked([posterior.asked(work, roof, numbers, batch) for roof in roofs])
    times = {}
    for n, (roof, log_s) in enumerate(zip(roofs, posterior.log_seconds(cases), strict=True)):
        beyond, note = _beyond(posterior, roof, batch)
        width = posterior.log_width(roof.platform, gpu=roof.is_gpu)
        near = posterior.nearest_log_seconds(cases[n : n + 1], roof.platform)
        answers = [(TRANSFER, log_s), *([] if near is None else [(NEAREST, near[0])])]
        times[roof.platform] = [
            Time(
                around(batch * math.exp(float(log_seconds)), width),
                posterior.basis(roof.platform), source, note, _detail(posterior, roof.platform),
                models=posterior.models(roof.platform), guessed=beyond > 0, beyond=beyond,
            )
            for source, log_seconds in answers
        ]  # fmt: skip
    return times


def _detail(posterior: TransferPosterior, platform: str) -> str:
    runs = posterior.samples.get(platform)
    return f"{runs} runs of {posterior.models(platform)} models there" if runs else ""


def _beyond(posterior: TransferPosterior, roof: Roof, batch: int) -> tuple[float, str | None]:
    """Return the log half width to add for a batch far from the measured batches, and a note; (0,
    None): the batch is in range."""
    low, high = posterior.batches(gpu=roof.is_gpu)
    beyond = math.log(max(low / batch, batch / high, BATCH_SLACK) / BATCH_SLACK)
    if not beyond:
        return 0.0, None
    kind = "GPUs" if roof.is_gpu else "CPUs"
    return beyond, f"batch {batch} is far from those measured on {kind} ({low:.0f} to {high:.0f})"


def _answers(posterior: TransferPosterior, place: Roof, numbers: Numbers) -> bool:
    if place.platform in posterior.samples:
        return True
    if place.platform in posterior.devices:
        return any(
            stack.startswith(f"{place.platform}/{numbers.value}/") for stack in posterior.stacks
        )
    return not place.is_gpu or numbers in _HALF
