"""Family of training steps of model graphs (forward, backward, optimiser): their time and memory.

``step_costs`` turns the work of a step into seconds at learnt rates, ``bundle`` reads the learnt
data and ``predictor`` predicts. Serving needs numpy and onnxruntime only.
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
