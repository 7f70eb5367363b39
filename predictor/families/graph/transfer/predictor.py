"""Transfer between platforms as a source of times: new platforms, and a site's own runs."""

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
    """Return one posterior a process and bundle. Raises DocumentError."""
    return load(folder)


def transferred(
    graph: ModelGraph,
    places: Sequence[Roof],
    known: Mapping[str, Platform],
    numbers: Numbers,
    folder: Path | None = None,
) -> Mapping[str, Sequence[Time]]:
    """Answer for platforms with a site's own runs, and for any other.

    On a CPU with runs the time is of as many threads as these had. GPUs in fp32 without runs are
    left to other sources; on devices of the data set it answers what was measured there.
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
    """Return (the log half width that a batch unlike those measured on such platforms adds,
    note)."""
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
