"""``berth train --task operators``: the bundle of the operator model."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import xgboost

from berth.pilot.documents import to_json
from berth.pilot.version import VERSION
from berth.predictor.bundle_files import CARD
from berth.predictor.datasets.neusight import OPERATORS
from berth.predictor.operators import bundle as bundles
from berth.predictor.operators.bundle import (
    KINDS,
    LAW,
    LAW_SCHEMA,
    OPERATORS_SCHEMA,
    Group,
    Law,
    OperatorsManifest,
    OperatorsTraining,
    Width,
    file_of,
)
from berth.predictor.operators.physics import PRODUCT_FEATURES, VECTOR_FEATURES
from berth.predictor.training.convert import check_agreement, to_onnx
from berth.predictor.training.operators.card import card
from berth.predictor.training.operators.data import Rows, rows
from berth.predictor.training.operators.fit import FULL, Fitted, Size, features_of, fit
from berth.predictor.training.operators.held_out import choose_power, left_out, width
from berth.predictor.training.write import write_bundle

LIBRARIES = ("numpy", "onnxmltools", "onnxruntime", "xgboost-cpu")
STEPS = 10
"""Seven kinds of silicon left out, the power law, the trees, the bundle."""
MODEL_LOW, MODEL_HIGH = "whole models: 90 % low", "whole models: 90 % high"
MODEL_ROWS, MODEL_GPUS = "whole models: rows", "whole models: GPUs"


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[[str], None] = lambda _: None,
    size: Size = FULL,
) -> OperatorsManifest:
    """Train on all rows and write the bundle. The same data, seed and figures give the same id.

    Widths of single operators are found here, on silicon left out; that of whole models comes with
    the ``figures`` of ``berth evaluate --task operators``, and is the products' without them.
    """
    given = rows()
    held = left_out(seed, size, advance)
    widths = {group: width(held, kinds) for group, kinds in KINDS.items()}
    power = choose_power(seed)
    advance("power")
    fitted = fit(given, power, seed, size)
    advance("trees")
    files, apart = ensembles(fitted, given)
    law = Law(
        schema=LAW_SCHEMA,
        watts=power.watts,
        gamma=power.gamma,
        launch_s=fitted.launch_s,
        widths=widths,
        model=_model_width(figures, widths[Group.PRODUCTS]),
    )
    files[LAW] = to_json(law).encode()
    manifest = OperatorsManifest(
        schema=OPERATORS_SCHEMA,
        id="",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        berth_version=VERSION,
        figures=dict(figures),
        files={},
        product_features=PRODUCT_FEATURES,
        vector_features=VECTOR_FEATURES,
        training=OperatorsTraining(
            sources={OPERATORS.path: OPERATORS.sha256},
            gpus=tuple(sorted({str(name) for name in given.gpu})),
            rows=len(given),
            seed=seed,
            libraries={name: importlib.metadata.version(name) for name in LIBRARIES},
        ),
    )
    files[CARD] = card(manifest, law, apart).encode()
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def ensembles(fitted: Fitted, given: Rows) -> tuple[dict[str, bytes], float]:
    """(ONNX of each group by file name, the largest difference from xgboost)."""
    files, apart = {}, 0.0
    for group, booster in fitted.boosters.items():
        of = np.flatnonzero(np.isin(given.calls.kind, KINDS[group]))[:500]
        features, _ = features_of(group, given.calls[of], str(given.gpu[of[0]]), fitted.power)
        model = _regressor(booster)
        raw = to_onnx(model, features.shape[1])
        apart = max(apart, check_agreement(raw, model, features.astype(np.float64)))
        files[file_of(group)] = raw
    return files, apart


def _regressor(booster: xgboost.Booster) -> xgboost.XGBRegressor:
    """The same trees as scikit-learn's interface has them, which the converter wants."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trees.json"
        booster.save_model(path)
        model = xgboost.XGBRegressor()
        model.load_model(path)
    return model


def _model_width(figures: Mapping[str, float], products: Width) -> Width:
    if MODEL_LOW not in figures:
        return products
    return Width(
        low=figures[MODEL_LOW],
        high=figures[MODEL_HIGH],
        rows=int(figures[MODEL_ROWS]),
        gpus=int(figures[MODEL_GPUS]),
    )
