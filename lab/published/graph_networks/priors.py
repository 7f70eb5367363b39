"""What the roofline says of timm's measurements: a base for ratios, and columns for trees."""

from __future__ import annotations

from functools import cache

import numpy as np

from berth.predictor.families.graph.latency.features import ROOF_FEATURES, Work, roof_features
from berth.predictor.families.program.ceilings import Floats
from lab.latency.fit_latency import Sample
from lab.latency.samples import sample_of as latency_sample
from lab.latency.samples import settings
from lab.latency.timm_devices import NUMBERS, roof_of_device
from lab.latency.timm_runs import Runs, graphs, scalars

_TINY = 1e-12


def roofs_of(rows: Runs) -> Floats:
    """[rows, len(ROOF_FEATURES)] seconds of an image under the device's roofs.

    Raises KeyError for a device or precision that timm does not have.
    """
    found = np.empty((len(rows), len(ROOF_FEATURES)))
    settings = zip(
        rows.graph.tolist(), rows.device.tolist(), rows.precision.tolist(), rows.batch.tolist(),
        strict=True,
    )  # fmt: skip
    for n, setting in enumerate(settings):
        found[n] = remembered(*setting)
    return found


@cache
def remembered(graph: int, device: str, precision: str, batch: int) -> Floats:
    """[len(ROOF_FEATURES)] of one setting; kept for as long as the process runs."""
    work, place = graphs().work[graph], roof_of_device(device)
    found: Floats = roof_features(work, [place], [NUMBERS[precision]], batch)[0]
    return found


def roofline_seconds(rows: Runs) -> Floats:
    """[rows] of an image: operators one after the other at full roofs, and their launches."""
    return _seconds(rows, roofs_of(rows))


def _seconds(rows: Runs, roofs: Floats) -> Floats:
    launch_s = np.array([roof_of_device(device).launch_s for device in rows.device.tolist()])
    launches = roofs[:, ROOF_FEATURES.index("launches")] * launch_s / rows.batch
    return np.asarray(roofs[:, ROOF_FEATURES.index("roof_s")] + launches)


def tree_features(rows: Runs) -> Floats:
    """[rows, ...] settings, published totals, graph features and roofs, as logarithms."""
    roofs = roofs_of(rows)
    return np.column_stack((
        scalars(rows), np.log1p(graphs().features[rows.graph]), np.log(roofs + _TINY),
        np.log(_seconds(rows, roofs)),
    ))  # fmt: skip


def sample_of(rows: Runs) -> Sample:
    """The rows as the served method learns from them (``training.latency.process``)."""
    known = graphs()
    work: list[tuple[Work, Floats] | None] = [
        (known.work[n], known.features[n]) for n in rows.graph.tolist()
    ]
    return latency_sample(rows, work, settings(rows), rows.architecture)
