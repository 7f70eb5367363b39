"""Learns and predicts: from a Profile and a Platform to a Prediction with an interval.

What *serves* needs numpy and onnxruntime only; what *trains* lives in ``predictor.learning`` and in
``lab/`` and is never imported by the serving side. Knows nothing of schedulers and queues.

``from berth.predictor import predict`` predicts the time, memory and energy of a deep-learning
model on platforms in one call (``families.graph.prediction``); nothing is imported before.

No data leaves the machine: onnxruntime's own telemetry (a device id and a database in the user's
home, uploads by the daemon) is switched off here, before any module of this room can load it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from berth.predictor.families.graph.prediction import ModelPrediction, predict

__all__ = ["ModelPrediction", "predict"]

os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def __getattr__(name: str) -> Any:
    if name in __all__:
        from berth.predictor.families.graph import prediction as model_prediction  # noqa: PLC0415 - when asked

        return getattr(model_prediction, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
