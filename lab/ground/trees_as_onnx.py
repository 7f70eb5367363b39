"""Convert xgboost ensembles to ONNX, and check that both give the same output."""

from __future__ import annotations

import numpy as np
import xgboost

from berth.predictor.core.arrays import Floats
from lab.ground.onnx_export import agreement

TREES_TOLERANCE = 1e-5
"""Largest allowed difference of log time between xgboost and its ONNX file."""
_TREES_OPSET = 15


def trees_to_onnx(model: xgboost.XGBRegressor, feature_count: int) -> bytes:
    """Return the xgboost ensemble as ONNX bytes with one input ``features`` (rows x features,
    float32)."""
    from onnxmltools.convert import convert_xgboost  # noqa: PLC0415 - heavy
    from onnxmltools.convert.common.data_types import FloatTensorType  # noqa: PLC0415

    inputs = [("features", FloatTensorType([None, feature_count]))]
    # The fixed name replaces a random one, which would change the bundle's id at each conversion.
    converted = convert_xgboost(model, "residual", inputs, target_opset=_TREES_OPSET)
    return bytes(converted.SerializeToString())


def check_trees_agree(onnx: bytes, model: xgboost.XGBRegressor, rows: Floats) -> float:
    """Return the largest difference between the ONNX file and the xgboost model on ``rows``.

    Rows are tried with and without missing values. Raises BerthError above ``TREES_TOLERANCE``:
    such a model must not be written.
    """
    holes = rows.copy()
    holes[np.random.default_rng(0).random(rows.shape) < 0.2] = np.nan
    probe = np.vstack([rows, holes]).astype(np.float32)
    return agreement(onnx, {"features": probe}, model.predict(probe), TREES_TOLERANCE)
