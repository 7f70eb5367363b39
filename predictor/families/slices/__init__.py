"""How much slower a workload runs on a MIG slice than on the whole GPU.

The time on a slice is a smooth maximum of two parts: kernel launches and host work, which a smaller
slice does not lengthen; and GPU work, which is divided by the slice's effective share of the GPU.
The methods are:

- ``equivalence``: times over batch sizes on the whole GPU, read at a larger batch for a slice;
- ``sweep``: a load model fitted to the workload's times on the whole GPU over batch sizes and
  numbers of processes;
- ``latent``: the ratio of both parts, predicted from GPU utilisation.

``predictor`` combines the methods and adds intervals; ``berth.policies.mig.recommend`` chooses a
slice. Predicting needs only numpy.
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
    bundle_readers={"berth.slices-bundle/3": f"{_HERE}.bundle"},
)
