"""A training step of a model graph (forward, backward, optimiser): its time and memory.

``step_costs`` turns what a step does into seconds at learnt rates; ``bundle`` holds what was
learnt, ``predictor`` answers. Serving side: numpy and onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.predictor.core.family import Bundles, FamilyEntry

if TYPE_CHECKING:
    from berth.predictor.families.training_step.training_step_family import TrainingStepFamily


def _load(bundles: Bundles) -> TrainingStepFamily:
    from berth.predictor.families.training_step.training_step_family import TrainingStepFamily  # noqa: PLC0415

    return TrainingStepFamily.load(bundles)


FAMILY = FamilyEntry(
    "training_step",
    ("model-graph",),
    _load,
    bundle_readers={"berth.dl-training-bundle/1": "berth.predictor.families.training_step.bundle"},
)
