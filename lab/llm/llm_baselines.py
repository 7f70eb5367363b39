"""Baselines of the predictor of language models, evaluated on the same folds.

* ``thesis``: XGBoost with the thesis's hyper-parameters on the features of Table 6.3, the
  lengths, parallelism and one-hots of accelerator and framework;
* ``bandwidth``, ``peak``: the time of reading (of multiplying) at the data sheets' rates, times one
  factor for all rows;
* ``nearest device x factor``: the most similar measured load on the most similar measured device,
  of the same model where there is one, times the ratio of the times at the data sheets' rates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

from berth.pilot.platform import Precision
from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import LlmLoad, memory
from berth.predictor.families.language_model.physics import TERMS
from berth.predictor.hardware.unit import Unit, unit_named
from lab.ground.evaluate import Family
from lab.llm.cases import Cases

THESIS: dict[str, Any] = {"n_estimators": 2000, "max_depth": 8, "learning_rate": 0.1}
"""Section 6.5.3."""
Features = Callable[[Cases], Floats]


def baselines(seed: int) -> tuple[Family[Cases], ...]:
    """Return all baselines, each fold with the same seed: those that know nothing but data sheets
    and neighbours, then trees."""
    return (
        Family("bandwidth", _by_rate(_read)),
        Family("peak", _by_rate(_multiplied)),
        Family("nearest device x factor", _nearest_device),
        Family("XGBoost, Table 6.3 (the thesis)", _trees(_thesis, THESIS, seed)),
    )


def _read(table: Cases) -> Floats:
    """Return the log seconds of reading weights and cache at the memory's bandwidth."""
    return _log_sum(table, ("weights", "cache"))


def _multiplied(table: Cases) -> Floats:
    """Return the log seconds of the matrix products at the peak rate."""
    return _log_sum(table, ("decode", "prefill"))


def _log_sum(table: Cases, names: tuple[str, ...]) -> Floats:
    known = TERMS[table.head]
    chosen = [known.index(name) for name in names if name in known]
    return np.asarray(np.log(np.exp(table.log_terms[:, chosen]).sum(axis=1)), dtype=np.float64)


def _by_rate(rate: Callable[[Cases], Floats]) -> Callable[[Cases, Cases, int], Floats]:
    def predict(learnt: Cases, asked: Cases, _: int) -> Floats:
        return rate(asked) + float(np.median(learnt.log_seconds - rate(learnt)))

    return predict


def _nearest_device(learnt: Cases, asked: Cases, _: int) -> Floats:
    chosen = [_most_similar(learnt, asked, row) for row in range(len(asked))]
    own, other = (0.5 * (_read(t) + _multiplied(t)) for t in (asked, learnt))
    return np.asarray(learnt.log_seconds[chosen] + own - other[chosen], dtype=np.float64)


def _most_similar(learnt: Cases, asked: Cases, row: int) -> int:
    """Return the training row with the same framework, model and precision as far as possible, and
    the most similar device and load."""
    device = asked.cases[row].device
    same = [list(own).index(name) if name in own else -1 for own, name in (
        (asked.codes.frameworks, asked.frameworks[row]), (asked.codes.models, asked.models[row]),
    )]  # fmt: skip
    apart = 100.0 * (learnt.ties[:, 1] != same[0]) + 30.0 * (learnt.ties[:, 2] != same[1])
    apart += 10.0 * (learnt.ties[:, 6] != asked.ties[row, 6])
    rates = {name: _log_rates(name) for name in set(learnt.accelerators)}
    own = np.log([device.bytes_per_s, device.flops_per_s(16)])
    apart += 3.0 * np.abs(np.array([rates[name] for name in learnt.accelerators]) - own).sum(axis=1)
    return int(np.argmin(apart + np.abs(learnt.numbers - asked.numbers[row]).sum(axis=1)))


@cache
def _log_rates(name: str) -> Floats:
    device = unit_named(name)
    return np.log([device.bytes_per_s, device.flops_per_s(16)])


def _trees(
    features: Features, arguments: dict[str, Any], seed: int
) -> Callable[[Cases, Cases, int], Floats]:
    def predict(learnt: Cases, asked: Cases, _: int) -> Floats:
        model = xgboost.XGBRegressor(n_jobs=1, tree_method="hist", random_state=seed, **arguments)
        model.fit(features(learnt), learnt.log_seconds)
        return np.asarray(model.predict(features(asked)), dtype=np.float64)

    return predict


def _thesis(table: Cases) -> Floats:
    raw = [
        [*model_features(c.model, c.load).values(), *hardware_features(c.device).values()]
        for c in table.cases
    ]
    return np.hstack([np.array(raw), _loads(table), _hot(table, 2)])


def _loads(table: Cases) -> Floats:
    loads = [c.load for c in table.cases]
    return np.array([
        [x.input_tokens, x.output_tokens, x.batch, x.tensor_parallel, x.data_parallel,
         x.expert_parallel, x.weight_bits]
        for x in loads
    ], dtype=np.float64)  # fmt: skip


def _hot(table: Cases, columns: int) -> Floats:
    """One-hots of accelerator, framework and, of three columns, model."""
    codes = table.codes
    sizes = (len(codes.accelerators), len(codes.frameworks), len(codes.models))
    return np.hstack([np.eye(size)[table.ties[:, i]] for i, size in enumerate(sizes[:columns])])


MODEL_FEATURES = ("BS", "SL", "QT", "TN", "TE", "TM", "TP", "TMmem", "MPE", "NHL", "NAH", "HS",
                  "VS", "TVS")  # fmt: skip
HARDWARE_FEATURES = ("PF32", "PBHBM", "CM", "Cm", "MTPB", "MTPM", "RPB", "RPM", "WS", "SMPB",
                     "SMMP", "SMS", "SMPBO")  # fmt: skip
NODES_PER_LAYER = 16
"""Two norms, q, k, v, rotation of two, scores, softmax, mix, output, two sums, gate or up,
activation, down."""
EDGES_PER_LAYER = 20


def model_features(model: LanguageModel, load: LlmLoad) -> dict[str, float]:
    """Return the 14 model features under a load, by the thesis's abbreviations; memory in bytes."""
    need = memory(model, load)
    experts = 3 * model.experts * model.moe_layers if model.experts > 1 else 0
    nodes = NODES_PER_LAYER * model.layers + experts + 3
    return {
        "BS": float(load.batch),
        "SL": float(load.input_tokens),
        "QT": load.weight_bits,
        "TN": float(nodes),
        "TE": float(EDGES_PER_LAYER * model.layers + experts + 2),
        "TM": model.active_parameters * load.input_tokens * load.batch
        + model.attending_width * load.input_tokens**2 * load.batch,
        "TP": model.parameters,
        "TMmem": need.peak.mid * load.gpus,
        "MPE": float(model.positions),
        "NHL": float(model.layers),
        "NAH": float(model.heads),
        "HS": float(model.hidden_size),
        "VS": float(model.vocabulary),
        "TVS": 0.0,  # token types are the encoders'
    }


_THREADS_PER_BLOCK, _REGISTERS_PER_BLOCK = 1024, 65536
_WARP_SIZE, _SHARED_BYTES_PER_BLOCK = 32, 49152
# CUDA's limits that all compute capabilities share, as in cudaDeviceProp.


@cache
def _cuda_limits() -> dict[str, dict[str, int]]:
    """Return CUDA's other limits by compute capability, such as ``sm_90``."""
    text = Path(__file__).with_name("cuda_limits.json").read_text(encoding="utf-8")
    limits: dict[str, dict[str, int]] = json.loads(text)["limits"]
    return limits


def hardware_features(device: Unit) -> dict[str, float]:
    """Return the 13 features of the accelerator; the seven of its host were not published."""
    isa = device.sheet.isa or ""
    cuda, multiprocessors = _cuda_limits().get(isa), float(device.sheet.multiprocessors or math.nan)
    limits: tuple[float, ...] = (math.nan,) * 9 + (multiprocessors, math.nan)
    if cuda is not None:
        limits = (
            int(isa[3:-1]), int(isa[-1]), _THREADS_PER_BLOCK, cuda["threads_per_multiprocessor"],
            _REGISTERS_PER_BLOCK, cuda["registers_per_multiprocessor"], _WARP_SIZE,
            _SHARED_BYTES_PER_BLOCK, cuda["shared_bytes_per_multiprocessor"], multiprocessors,
            cuda["shared_bytes_opt_in"],
        )  # fmt: skip
    fp32 = device.peaks.vector.get(Precision.FP32, math.nan)
    values = (fp32 / 1e9, device.bytes_per_s / 1e9, *limits)
    return dict(zip(HARDWARE_FEATURES, map(float, values), strict=True))
