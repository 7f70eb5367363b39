"""Baselines of the operator model, on the same rows: the roofline, and trees without physics."""

from __future__ import annotations

import numpy as np
import xgboost

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.operators.physics import Places, PowerLimit, roof_seconds
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import Unit, unit_named
from lab.operators.fit_operators import launches
from lab.operators.operator_rows import Rows

PUBLISHED = {
    "linear (FC)": 0.1388, "bmm": 0.1378, "element-wise": 0.1932, "softmax": 0.1386,
    "layer normalisation": 0.5669,
}  # fmt: skip
"""Mean errors that NeuSight publishes for sizes and GPUs out of its distribution, the H100 among
them (scripts/asplos/summary/perop.csv of its repository): quoted, not run here."""
PUBLISHED_L4 = {"inference": 0.1465, "training": 0.0724, "compiled": 0.1307}
"""Mean errors of whole models on the L4 by the same repository's summary.csv: 7, 3 and 4
rows, those that are evaluated here."""
_ROWS = 60_000


def roofline(train: Rows, test: Rows) -> Floats:
    """[n] launch and the roof: nothing but a launch for each operator is fitted."""
    _, typical = launches(train)
    found = np.array([typical[str(op)] for op in test.operator])
    for gpu in np.unique(test.gpu):
        of = np.flatnonzero(test.gpu == gpu)
        found[of] += roof_seconds(
            test.calls[of], Places.of([unit_named(str(gpu))], Numbers.FP32, PowerLimit(1.0, 0.0))
        )[0]
    return found


def trees(train: Rows, test: Rows, seed: int) -> Floats:
    """[n] XGBoost from shapes and the data sheet to the logarithm of the time."""
    chosen = np.random.default_rng(seed).permutation(len(train))[:_ROWS]
    train = train[chosen]
    model = xgboost.XGBRegressor(
        n_estimators=300, max_depth=8, learning_rate=0.1, subsample=0.8, n_jobs=1,
        random_state=seed, tree_method="hist",
    )  # fmt: skip
    model.fit(_table(train, train), np.log(train.seconds))
    found: Floats = np.exp(model.predict(_table(test, train)).astype(np.float64))
    return found


def _sheet(unit: Unit) -> tuple[float | None, ...]:
    return (
        unit.multiprocessors, unit.bytes_per_s, unit.l2_bytes, unit.memory_bytes, unit.power_w,
        unit.vector_flops, unit.sheet.generation,
    )  # fmt: skip


def _table(rows: Rows, names: Rows) -> Floats:
    operators = {name: n for n, name in enumerate(np.unique(names.operator))}
    sheets = {
        str(gpu): [float(value or np.nan) for value in _sheet(unit_named(str(gpu)))]
        for gpu in np.unique(rows.gpu)
    }
    calls = rows.calls
    sizes = (calls.groups, calls.rows, calls.columns, calls.inner, calls.flops, calls.moved_bytes)
    return np.column_stack([
        [operators.get(name, -1) for name in rows.operator],
        *(np.log(size) for size in sizes),
        np.array([sheets[str(gpu)] for gpu in rows.gpu]),
    ])  # fmt: skip
