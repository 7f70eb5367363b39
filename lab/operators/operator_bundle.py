"""``python -m lab operators --train``: the bundle of the operator model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import xgboost

from berth.pilot.documents import to_json
from berth.predictor.core.bundle import CARD, open_model
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.families.graph.operators import bundle as bundles
from berth.predictor.families.graph.operators.bundle import (
    CONSTANTS,
    CONSTANTS_SCHEMA,
    KINDS,
    OPERATORS_SCHEMA,
    IntervalFactors,
    Loaded,
    OperatorConstants,
    OperatorGroup,
    OperatorsManifest,
    OperatorsTraining,
    file_of,
)
from berth.predictor.families.graph.operators.physics import PRODUCT_FEATURES, VECTOR_FEATURES
from berth.predictor.families.graph.operators.predictor import OperatorModel
from lab.datasets.neusight import OPERATORS
from lab.ground.report import markdown_table, model_card, source_lines
from lab.ground.trees_as_onnx import check_trees_agree, trees_to_onnx
from lab.operators.fit_operators import FULL, Fitted, Size, features_of, fit
from lab.operators.operator_rows import Rows, rows
from lab.operators.silicon_held_out import Held, choose_power, left_out, width

LIBRARIES = ("numpy", "onnxmltools", "onnxruntime", "xgboost-cpu")
STEPS = 10
"""Seven kinds of silicon left out, the power law, the trees, the bundle."""
MODEL_WIDTH, HALF_WIDTH = "whole models, fp32", "image models, half precision"


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[..., None] = lambda *_: None,
    size: Size = FULL,
) -> OperatorsManifest:
    """Train on all rows and write the bundle. The same data, seed and figures give the same id.

    Widths come with the ``figures`` of ``python -m lab operators``. Without them those of
    single operators are found here once more, and whole models have the products'.
    """
    given = rows()
    widths = _widths(figures) or group_widths(left_out(seed, size, advance))
    power = choose_power(seed)
    advance("power")
    fitted = fit(given, power, seed, size)
    advance("trees")
    files, apart = ensembles(fitted, given)
    constants = OperatorConstants(
        schema=CONSTANTS_SCHEMA,
        watts=power.watts,
        gamma=power.gamma,
        launch_s=fitted.launch_s,
        widths=widths,
        model=named_width(figures, MODEL_WIDTH) or widths[OperatorGroup.PRODUCTS],
        half=named_width(figures, HALF_WIDTH) or widths[OperatorGroup.PRODUCTS],
    )
    files[CONSTANTS] = to_json(constants).encode()
    manifest = OperatorsManifest(
        schema=OPERATORS_SCHEMA,
        **made_by(command, figures),
        product_features=PRODUCT_FEATURES,
        vector_features=VECTOR_FEATURES,
        training=OperatorsTraining(
            sources={OPERATORS.path: OPERATORS.sha256},
            gpus=tuple(sorted({str(name) for name in given.gpu})),
            rows=len(given),
            seed=seed,
            libraries=versions(LIBRARIES),
        ),
    )
    files[CARD] = card(manifest, constants, apart).encode()
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def in_memory(fitted: Fitted, given: Rows) -> OperatorModel:
    """Return what a bundle of ``fitted`` would predict; its intervals are of no width."""
    files, _ = ensembles(fitted, given)
    none = IntervalFactors(low=1.0, high=1.0, rows=1, gpus=1)
    constants = OperatorConstants(
        schema=CONSTANTS_SCHEMA, watts=fitted.power.watts, gamma=fitted.power.gamma,
        launch_s=fitted.launch_s, widths=dict.fromkeys(OperatorGroup, none), model=none, half=none,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, raw in files.items():
            (Path(folder) / name).write_bytes(raw)
        opened = {group: open_model(Path(folder) / file_of(group)) for group in OperatorGroup}
    return OperatorModel(Loaded("", constants, fitted.power, opened))


def group_widths(held: Held) -> dict[OperatorGroup, IntervalFactors]:
    """Return widths of single operators, by group."""
    return {group: width(held, kinds) for group, kinds in KINDS.items()}


def _widths(figures: Mapping[str, float]) -> dict[OperatorGroup, IntervalFactors]:
    """Return the widths of all groups from ``figures``; {} where one is missing."""
    found = {group: named_width(figures, group.value) for group in OperatorGroup}
    whole = {group: one for group, one in found.items() if one is not None}
    return whole if len(whole) == len(OperatorGroup) else {}


def ensembles(fitted: Fitted, given: Rows) -> tuple[dict[str, bytes], float]:
    """(ONNX of each group by file name, the largest difference from xgboost)."""
    files, apart = {}, 0.0
    for group, booster in fitted.boosters.items():
        of = np.flatnonzero(np.isin(given.calls.kind, KINDS[group]))[:500]
        features, _ = features_of(group, given.calls[of], str(given.gpu[of[0]]), fitted.power)
        model = _regressor(booster)
        raw = trees_to_onnx(model, features.shape[1])
        apart = max(apart, check_trees_agree(raw, model, features.astype(np.float64)))
        files[file_of(group)] = raw
    return files, apart


def _regressor(booster: xgboost.Booster) -> xgboost.XGBRegressor:
    """Return the same trees as scikit-learn's interface has them, which the converter wants."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trees.json"
        booster.save_model(path)
        model = xgboost.XGBRegressor()
        model.load_model(path)
    return model


def width_figures(name: str, width: IntervalFactors) -> dict[str, float]:
    """Return a width among an evaluation's figures."""
    return {f"{name}: {key}": float(value) for key, value in width.model_dump().items()}


def named_width(figures: Mapping[str, float], name: str) -> IntervalFactors | None:
    """Return the width that ``width_figures`` wrote; None where the figures have none."""
    if f"{name}: low" not in figures:
        return None
    low, high, rows_, gpus = (figures[f"{name}: {key}"] for key in ("low", "high", "rows", "gpus"))
    return IntervalFactors(low=low, high=high, rows=int(rows_), gpus=int(gpus))


def card(manifest: OperatorsManifest, constants: OperatorConstants, apart: float) -> str:
    """``CARD.md`` as text; ``apart``: largest difference of ONNX from xgboost."""
    every = (
        *constants.widths.items(),
        ("whole model, fp32", constants.model),
        ("half precision", constants.half),
    )
    rows = [
        (str(name), f"{one.low:.2f}", f"{one.high:.2f}", str(one.rows), str(one.gpus))
        for name, one in every
    ]
    return model_card(
        "operators on GPUs", manifest,
        {
            "What it is": [
                "Time of one operator = launch + max(flops / peak within the rated power, bytes /",
                "bandwidth) / utilisation, with a utilisation in (0, 1] from gradient-boosted",
                f"trees (ONNX; largest difference from the trainer's own output {apart:.1e} before",
                "the logistic curve). A model graph's time is the sum of its operators.",
                f"Power: a GPU keeps its peak from {constants.watts:g} W a TFLOP/s of fp32 (16 nm)",
                f"on; below, its share falls with exponent {constants.gamma:g}.",
            ],
            "Data": [
                *source_lines(manifest.training.sources), "",
                f"NeuSight (MIT): {manifest.training.rows} rows, fp32 without TF32, PyTorch, on",
                f"{', '.join(manifest.training.gpus)}. All rows are trained on, the L4's and other",
                "test rows too; the figures below are of models trained without them.",
            ],
            "What it is not": [
                "Trained on fp32 alone: half precision, TF32 and tensor cores are scaled by their",
                "peaks; so are GPUs newer than Ada. Convolutions other than 3x3 of stride 1 are",
                "taken as matrix products; pooling, movement and unknown operators as reading and",
                "writing their bytes. Kernels that a compiler fuses are counted apart.",
            ],
            "Widths": [
                "Factors from the predicted time to the ends of the 90 % interval, on silicon left",
                "out.", "", *markdown_table(("of", "low", "high", "rows", "GPUs"), rows),
            ],
        },
        command="python -m lab operators --report DIR",
    )  # fmt: skip
