"""A training step of a model graph (forward, backward, optimiser): its time and memory.

``step_costs`` turns what a step does into seconds at learnt rates; ``bundle`` holds what was
learnt, ``predictor`` answers. Serving side: numpy and onnxruntime.
"""

from __future__ import annotations

from berth.predictor.core.family import FamilyEntry, load_from

_HERE = "berth.predictor.families.training_step"
FAMILY = FamilyEntry(
    "training_step",
    ("model-graph",),
    load_from(f"{_HERE}.training_step_family", "TrainingStepFamily"),
    bundle_readers={"berth.dl-training-bundle/1": f"{_HERE}.bundle"},
)
