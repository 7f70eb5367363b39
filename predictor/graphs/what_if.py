"""Predict how much a model on a platform gains by another batch, precision or fusion.

The roofline predicts each changed configuration in the same way as the present one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.operators import Family
from berth.predictor.graphs.roofline import (
    FREE,
    Load,
    Roofline,
    load_of,
    native_numbers,
    operator_times,
    roofline,
)
from berth.predictor.hardware.device import Numbers

POINTWISE = frozenset({Family.ACTIVATION, Family.ELEMENTWISE, Family.QUANTISATION})
"""Operator families that compilers fuse into the operator that produces their input."""
LEAST_GAIN = 1.02
"""Changes with a smaller gain are not reported."""
BATCH_STEPS = (2, 4, 8, 16)

AtBatch = Callable[[int], ModelGraph | None]
"""A function that returns the graph at a batch size, or None where the model's batch is fixed."""


@dataclass(frozen=True, slots=True)
class Change:
    """A possible change and its predicted gain: the new throughput over the present one."""

    name: str
    """The kind of change: batch, precision or fusion."""
    to: str
    gain: float
    note: str = ""

    def sentence(self) -> str:
        """Return the change and its gain as one line of text."""
        return f"{self.to}: {self.gain:.2f}x{f' {self.note}' if self.note else ''}"


def changes(graph: ModelGraph, now: Roofline, at_batch: AtBatch) -> list[Change]:
    """Return the changes with a gain of at least ``LEAST_GAIN``, largest gain first.

    Batches that do not fit in memory are left out.
    """
    candidates = [
        *_precision(graph, now),
        _batch(now, at_batch),
        _fusion(graph, now),
    ]
    helping = [change for change in candidates if change is not None and change.gain >= LEAST_GAIN]
    return sorted(helping, key=lambda change: -change.gain)


def _batch(now: Roofline, at_batch: AtBatch) -> Change | None:
    """Return the smallest larger batch with at least 95 % of the best tried batch's throughput.

    Batches that do not fit in memory are not tried; None where no larger batch is possible.
    """
    tried = []
    for step in BATCH_STEPS:
        graph = at_batch(now.batch * step)
        if graph is None:
            break
        then = roofline(graph, now.roof, now.numbers)
        if not then.fits:
            break
        tried.append(then)
    if not tried:
        return None
    best = max(then.samples_per_s for then in tried)
    enough = next(then for then in tried if then.samples_per_s >= 0.95 * best)
    return Change("batch", f"batch {enough.batch}", enough.samples_per_s / now.samples_per_s,
                  f"as many samples a second, each run {enough.seconds.mid / now.seconds.mid:.3g}"
                  " times as long")  # fmt: skip


def _precision(graph: ModelGraph, now: Roofline) -> list[Change]:
    """Return the lower precisions that make the model faster, from wide to narrow.

    Only precisions with hardware units on the platform are tried. Each must gain 10 % over the
    wider ones, because fewer bits cost accuracy.
    """
    helping: list[Change] = []
    best = LEAST_GAIN
    for numbers in (Numbers.TF32, Numbers.BF16, Numbers.FP16, Numbers.FP8):
        narrower = numbers.bits < now.numbers.bits or now.numbers is Numbers.FP32
        if numbers is now.numbers or not narrower or numbers not in now.roof.native:
            continue
        gain = now.seconds.mid / roofline(graph, now.roof, numbers).seconds.mid
        if gain > best * 1.1:
            best = gain
            note = "as fast, where the model's accuracy allows it"
            helping.append(Change("precision", numbers.value, gain, note))
    return helping


def _fusion(graph: ModelGraph, now: Roofline) -> Change | None:
    load, merged = fused(graph, now.numbers)
    if not merged:
        return None
    then = float(operator_times(load, now.roof, now.numbers).seconds.sum())
    return Change("fusion", f"fusing {merged} pointwise operators into what feeds them",
                  now.seconds.mid / then, "as fast as operator by operator")  # fmt: skip


def fused(graph: ModelGraph, numbers: Numbers) -> tuple[Load, int]:
    """Return the work of the graph with pointwise operators fused, and how many were fused.

    A pointwise node is fused into a producer whose output no other node reads. The tensor between
    the two nodes is then neither written nor read, and one launch is saved.
    """
    per_kind = load_of(graph, numbers)
    family = graph.family
    pointwise = np.array([f in POINTWISE for f in FAMILIES])[family].tolist()
    free = np.array([f in FREE for f in FAMILIES])[family].tolist()
    scale = numbers.bits / native_numbers(graph).bits
    written = (graph.output_bytes * scale).tolist()
    readers = np.bincount(graph.edges[0], minlength=len(graph)).tolist()
    root = list(range(len(graph)))
    between = [0.0] * len(graph)
    merged = 0
    for source, target in zip(*graph.edges.tolist(), strict=True):
        if (
            pointwise[target]
            and root[target] == target
            and readers[source] == 1
            and not free[source]
        ):
            root[target] = root[source]
            between[root[source]] += 2 * written[source]
            merged += 1
    return _merged(graph, per_kind, _roots(root), between), merged


def _roots(root: list[int]) -> list[int]:
    """Return, for each node, the final node that it is fused into, following chains of fusions."""
    for node in range(len(root)):
        while root[root[node]] != root[node]:
            root[node] = root[root[node]]
    return root


def _merged(graph: ModelGraph, load: Load, root: Sequence[int], between: Sequence[float]) -> Load:
    size = len(graph)
    groups = np.asarray(root)
    flops = np.bincount(groups, load.flops[graph.kind], size)
    weights = np.bincount(groups, load.weight_bytes[graph.kind], size)
    moved = np.bincount(groups, load.activation_bytes[graph.kind], size)
    lasting = np.array([0.0] * size)
    for node, saved in enumerate(between):
        lasting[root[node]] += saved
    remaining = np.unique(groups)
    return Load(
        load.family[graph.kind][remaining], flops[remaining], weights[remaining],
        np.maximum(moved - lasting, 0.0)[remaining], load.launches[graph.kind][remaining],
    )  # fmt: skip
