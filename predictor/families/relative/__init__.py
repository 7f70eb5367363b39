"""Programs on many platforms, from the counters of one run: what a site trains from its own runs.

Takes bundles of the cost model and of any ONNX network (VAE + DNN, xAMM). None is shipped: the
family answers where the site names one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.predictor.core.family import Bundles, FamilyEntry

if TYPE_CHECKING:
    from berth.predictor.families.relative.relative_family import RelativeFamily

SCHEMA = "berth.relative-bundle/1"


def _load(bundles: Bundles) -> RelativeFamily | None:
    if SCHEMA not in bundles:
        return None
    from berth.predictor.families.relative.relative_family import RelativeFamily  # noqa: PLC0415

    return RelativeFamily.load(bundles[SCHEMA])


FAMILY = FamilyEntry(
    "relative",
    ("program",),
    _load,
    bundle_readers={SCHEMA: "berth.predictor.families.relative.bundle"},
)
