"""Relate times in half precision on data-centre GPUs by how fast they multiply matrices.

The sources of times were learnt from consumer GPUs, whose runs in half precision are bound by
memory, so they relate two data-centre GPUs by little but bandwidth: an H200 is 1.36 times an H100,
where 1.07 was measured. Dense runs are bound by matrix units, and these by power. The rate of
matrix products is taken as ``peak^(1-g) power^g``:

- ``peak``: dense peak in fp16 of the data sheet (flops per second);
- ``power``: rated board power (W);
- ``g`` = ``POWER_SHARE``, fitted to MLPerf Inference v4.1 (ResNet-50 and BERT on nine GPUs, each
  weighing the same).

The time of a graph on such a GPU is drawn to the time on ``ANCHOR`` times the ratio of the rates:
the more flops the graph does per byte of its parameters, the nearer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.pilot.platform import Platform, Precision
from berth.predictor.families.graph.sources import IMAGES_IN_HALF
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.roofline import Roofline
from berth.predictor.hardware.device import DataSheet
from berth.predictor.hardware.unit import known_unit

ANCHOR = "h100-80gb"
"""Shipped platform to whose time the others are related."""
POWER_SHARE = 0.43
RIDGE = 295.0
"""Flops per byte at which the anchor's matrix units and memory are equally busy."""
_OTHERS = ("rtx", "gtx", "titan", "jetson")
"""Beginnings of the names of GPUs that are no data-centre GPUs."""


def matrix_rate(sheet: DataSheet, power_share: float = POWER_SHARE) -> float | None:
    """Return a number in proportion to a data-centre GPU's rate of matrix products.

    None for other devices, and where the peak in fp16 or the power was not published.
    """
    peak = None if sheet.peaks is None else sheet.peaks.matrix.get(Precision.FP16)
    if peak is None or sheet.power_w is None or sheet.software != "cuda":
        return None
    if sheet.name.startswith(_OTHERS):
        return None
    return float(peak ** (1.0 - power_share) * sheet.power_w**power_share)


def related(
    graph: ModelGraph, timed: Sequence[Roofline], platforms: Mapping[str, Platform]
) -> list[Roofline]:
    """Return the times with those on data-centre GPUs where no model was measured related to the
    time on ``ANCHOR``, which must be among them; else unchanged.

    A slice's time changes by the factor of its GPU.
    """
    by_name = {one.roof.platform: one for one in timed}
    anchor = by_name.get(ANCHOR)
    if anchor is None or not _unmeasured(anchor):
        return list(timed)
    weight = _matrix_share(graph)
    factors = {}
    for name, one in by_name.items():
        rate, base = _rate(name, platforms), _rate(ANCHOR, platforms)
        if one.roof.parent is None and rate is not None and base is not None and _unmeasured(one):
            by_rate = anchor.seconds.mid * base / rate
            factors[name] = (by_rate / one.seconds.mid) ** weight
    return [
        replace(one, seconds=one.seconds.scaled(factors[whole]))
        if (whole := one.roof.parent or one.roof.platform) in factors and _unmeasured(one)
        else one
        for one in timed
    ]


def _unmeasured(one: Roofline) -> bool:
    return bool(one.shares) and one.shares[0].situation == IMAGES_IN_HALF


def _rate(name: str, platforms: Mapping[str, Platform]) -> float | None:
    platform = platforms.get(name)
    unit = None if platform is None else known_unit(platform, platforms)
    return None if unit is None else matrix_rate(unit.sheet)


def _matrix_share(graph: ModelGraph) -> float:
    """Return how far a graph's time in half precision is one of matrix products, 0 to 1."""
    intensity = graph.total_flops / max(2.0 * graph.parameters, 1.0)
    share = intensity / (intensity + RIDGE)
    return float(share) if math.isfinite(share) else 0.0
