"""A Forecast from a recommendation: what the submit filter looks up of a workload on slices.

Made where the workload is added to the store, with the model at hand; at submit time nothing is
predicted. A job's whole time is stretched as a batch's is: its parts beside the GPU make it no
slower than that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.policies.mig.recommend import Recommendation, SliceChoice
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.memory_need import UNKNOWN_BYTES
from berth.predictor.core.prediction import Basis, Interval, Prediction, PredictionCurve
from berth.predictor.core.sizes import SizeLaw
from berth.predictor.families.slices.workload import SliceWorkload

WHOLE = "whole"
"""In ``platforms``: the whole GPU, without MIG."""


def workload_digest(workload: SliceWorkload) -> str:
    """``sha256:`` of the workload's content."""
    return "sha256:" + hashlib.sha256(to_json(workload).encode()).hexdigest()


def forecast_of(
    workload: SliceWorkload, made: Recommendation, platforms: Mapping[str, str], *, bundle: str
) -> Forecast:
    """Time and memory of one job on slices and on the whole GPU.

    ``platforms``: the profile's name (or ``WHOLE``) by platform name, all of the GPU model that
    ``made`` is for. Raises UsageError where the workload does not say how long a job takes.
    """
    if workload.runtime_s is None:
        raise UsageError(
            f"{workload.name} does not say how long a job takes on the whole GPU",
            hint="add runtime_s to the file (seconds), or give --runtime 2h",
        )
    choices = {c.profile.name: c for c in made.choices}
    whole = made.choices[-1]
    curves = {
        platform: PredictionCurve((_point(workload, choices.get(name, whole), platform),))
        for platform, name in sorted(platforms.items())
        if name == WHOLE or name in choices
    }
    reference = min((p for p, name in platforms.items() if name == WHOLE), default="")
    return Forecast(
        workload=workload.name,
        kind="slices",
        digest=workload_digest(workload),
        bundle=bundle,
        targets=("cuda",),
        architecture=workload.architecture,
        instruction_sets=workload.instruction_sets,
        threads=1,
        ranks=1,
        gpus=1,
        container=None,
        reference_platform=reference,
        reference_runtime_s=workload.runtime_s,
        sizes=SizeLaw(None, None),
        curves=curves,
    )


def _point(workload: SliceWorkload, choice: SliceChoice, platform: str) -> Prediction:
    made, runtime_s = choice.prediction, workload.runtime_s or 0.0
    slowdown = made.slowdown
    most = choice.profile.memory_bytes
    if workload.memory is not None:
        memory = workload.memory.interval
    elif made.share.is_whole:
        memory = Interval(0.0, most, most)
    else:
        memory = Interval(0.0, most, UNKNOWN_BYTES)
    return Prediction(
        workload=workload.name,
        platform=platform,
        cores=1,
        gpus=1,
        basis=Basis.MEASURED if made.share.is_whole else made.basis,
        speedup=Interval(1 / slowdown.high, 1 / slowdown.mid, 1 / slowdown.low),
        runtime_s=slowdown.scaled(runtime_s),
        memory_bytes=memory,
        energy_j=None,
        bound=made.bound,
        abstained=None if made.share.is_whole else made.abstained,
    )
