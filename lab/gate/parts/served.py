"""What the shipped bundles say of rows that they were fitted on: the way of serving is unchanged.

These are no held-out errors: they move only where a bundle, its reader or a predictor changes.
"""

from __future__ import annotations

import time

import numpy as np

from berth.predictor.families.graph.operators.predictor import operator_model
from berth.predictor.families.language_model.physics import OFFLINE
from berth.predictor.families.language_model.predictor import LlmPredictor
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.slices.bundle import load as load_slices
from berth.predictor.families.slices.predictor import SlicePredictor
from berth.predictor.hardware import platforms
from berth.predictor.hardware.ceilings import Allocation
from lab.gate.part import Work
from lab.kernels.examples import read_examples
from lab.llm.cases import table
from lab.operators.whole_models import image_models
from lab.slices.slice_cases import SHARES, training_cases

EVERY = 10
"""Language models: every so many rows."""
CALLS = 200


def figures(work: Work) -> dict[str, float]:
    """Return errors on fitted rows, and the least time of one prediction."""
    made = _programs()
    work.advance()
    made["llm.median"] = _llm()
    made["mig-slices.median"] = _slices()
    work.advance()
    images = image_models(operator_model())
    made["operators.mean"] = float(np.abs(images.predicted / images.measured - 1).mean())
    return made


def _programs() -> dict[str, float]:
    predictor, known = Predictor.load(), platforms.shipped()
    examples = read_examples()
    home = known[examples[0].profile.platform]
    made: dict[str, float] = {}
    for name in ("quartz", "lassen-v100"):
        errors = []
        for one in examples:
            (said,) = predictor.predict_points(
                one.profile, [Allocation(known[name], 1)], reference=home
            )
            errors.append(abs(said.runtime_s.mid / one.seconds[name] - 1))
        made[f"programs.{name}.median"] = float(np.median(errors))
    profile, places = examples[0].profile, [Allocation(platform, 1) for platform in known.values()]
    took = []
    for _ in range(CALLS):
        began = time.perf_counter()
        predictor.predict_points(profile, places, reference=home)
        took.append(time.perf_counter() - began)
    made["programs.ms"] = 1e3 * min(took)
    return made


def _llm() -> float:
    predictor, data = LlmPredictor.load(), table(OFFLINE)
    errors = []
    for row in range(0, len(data), EVERY):
        case = data.cases[row]
        (said,) = predictor.predict(case.model, case.load, [case.device], data.frameworks[row])
        tokens = case.load.batch * (case.load.input_tokens + case.load.output_tokens)
        errors.append(abs(said.throughput.mid / (tokens / np.exp(data.log_seconds[row])) - 1))
    return float(np.median(errors))


def _slices() -> float:
    predictor = SlicePredictor(load_slices())
    errors = []
    for case in training_cases():
        shares = [SHARES[slices] for slices in case.measured]
        found = predictor.predict(case.workload, shares, gpu=case.workload.gpu)
        errors += [
            abs(said.slowdown.mid / np.exp(measured) - 1)
            for said, measured in zip(found, case.measured.values(), strict=True)
        ]
    return float(np.median(errors))
