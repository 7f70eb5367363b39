"""How much slower a workload is on a slice of its GPU (serving: numpy and onnxruntime only).

``t = smooth max(what does not shrink with the slice, work / effective share)``: launches and the
host on one side, compute and memory traffic on the other. Two ways to find how much of each a
workload has: the load model fitted to its own times on the whole GPU over batches and processes
(``sweep``), or one number learnt from utilisation, power and step time (``latent``). ``predictor``
puts them together with intervals; ``berth.policies.mig.recommend`` chooses a slice.
"""

from __future__ import annotations

from berth.predictor.core.family import Adjusted, Bundles, FamilyEntry, Question, load_from

_HERE = "berth.predictor.families.slices"


def _adjust(question: Question, bundles: Bundles, forecast: Adjusted) -> Adjusted:
    if not any(platform.parent for platform in question.platforms.values()):
        return forecast
    from berth.predictor.families.slices.projected import projected  # noqa: PLC0415

    return projected(question, bundles, forecast)


FAMILY = FamilyEntry(
    "slices",
    ("slices",),
    load_from(f"{_HERE}.slices_family", "SlicesFamily"),
    adjust=_adjust,
    bundle_readers={"berth.slices-bundle/1": f"{_HERE}.bundle"},
)
