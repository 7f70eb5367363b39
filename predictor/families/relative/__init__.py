"""Programs on many platforms, from the counters of one run: what a site trains from its own runs.

Takes bundles of the cost model and of any ONNX network (VAE + DNN, xAMM). None is shipped: the
family answers where the site names one.
"""

from __future__ import annotations

from berth.predictor.core.family import FamilyEntry, load_from

SCHEMA = "berth.relative-bundle/1"
_HERE = "berth.predictor.families.relative"
FAMILY = FamilyEntry(
    "relative",
    ("program",),
    load_from(f"{_HERE}.relative_family", "RelativeFamily"),
    bundle_readers={SCHEMA: f"{_HERE}.bundle"},
)
