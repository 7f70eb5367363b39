"""Family that predicts a program on many platforms from one run's counters, trained on a site's own
runs.

It reads bundles of the cost model and of any ONNX network (VAE + DNN, xAMM). Berth ships no such
bundle: the family predicts only where the site names one.
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
    needs_counters=True,
)
