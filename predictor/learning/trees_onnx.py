"""From an xgboost ensemble to ONNX, and the proof that both say the same."""

from __future__ import annotations

import numpy as np
import xgboost
from onnxmltools.convert import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.onnx_export import agreement

TOLERANCE = 1e-5
_OPSET = 15


def to_onnx(model: xgboost.XGBRegressor, feature_count: int) -> bytes:
    """The ensemble as ONNX with one input ``features`` (rows x features, float32)."""
    inputs = [("features", FloatTensorType([None, feature_count]))]
    # Without a name of its own each conversion would get a random one, and bundles another id.
    converted = convert_xgboost(model, "residual", inputs, target_opset=_OPSET)
    return bytes(converted.SerializeToString())


def check_agreement(onnx: bytes, model: xgboost.XGBRegressor, rows: Floats) -> float:
    """Largest difference between ONNX and xgboost on ``rows``, with and without missing values.

    Raises BerthError above ``TOLERANCE``: such a model must never be written.
    """
    holes = rows.copy()
    holes[np.random.default_rng(0).random(rows.shape) < 0.2] = np.nan
    probe = np.vstack([rows, holes]).astype(np.float32)
    return agreement(onnx, {"features": probe}, model.predict(probe), TOLERANCE)
