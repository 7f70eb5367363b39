"""The kind of workload that was measured on a whole GPU and is to run on a MIG slice."""

from __future__ import annotations

from berth.pilot.profile import RunsOn, Target
from berth.predictor.core.forecast import Unit
from berth.predictor.core.workload import WHOLE_JOB, Amount, Kind, Workload, digest_of
from berth.predictor.families.slices.workload import SliceWorkload


def describe(document: SliceWorkload) -> Workload:
    """A whole job where the file says how long one takes; else a batch."""
    runs_on = RunsOn(
        targets=(Target.CUDA,),
        architecture=document.architecture,
        instruction_sets=document.instruction_sets,
        gpus=1,
    )
    amount = Amount(unit=Unit.STEP) if document.runtime_s is None else WHOLE_JOB
    return Workload("slices", document.name, digest_of(document), runs_on, amount, document)


KIND = Kind("slices", SliceWorkload, describe)
