"""Largest difference between a trained model and its ONNX export, for every kind that ships."""

from __future__ import annotations

from berth.predictor.families.language_model.physics import TTFT
from berth.predictor.families.program.features import FEATURES
from berth.predictor.hardware import platforms
from berth.predictor.learning import trees_onnx as convert
from berth.predictor.learning.onnx_export import agreement
from berth.predictor.learning.programs.columns import columns, read_profiles
from berth.predictor.learning.programs.model import fit
from berth.predictor.learning.relative.law import LawFamily
from berth.predictor.learning.relative.law_onnx import check_graph, law_onnx
from lab.datasets.rajaperf import rows
from lab.gate.part import Work
from lab.kernels.examples import PROFILES, join
from lab.kernels.select import CANDIDATES
from lab.llm import to_onnx as llm_onnx
from lab.llm.held_out import fit as fit_llm
from lab.llm.table import table
from lab.relative.data import aiwc_rows
from lab.steps import step_rows
from lab.steps.fit_steps import fit as fit_steps

TOLERANCE = 1e-6


def figures(work: Work) -> dict[str, float]:
    """In natural logarithms of seconds."""
    return {
        "kernels": _kernels(work.seed),
        "law": _law(work.seed),
        "llm": _llm(work.seed),
        "training-steps": _steps(work.seed),
    }


def _kernels(seed: int) -> float:
    known = platforms.shipped()
    examples = join(read_profiles(PROFILES), rows())
    data = columns(examples, known["lassen-v100"], known[examples[0].profile.platform])
    model = fit(data, CANDIDATES[0], seed)
    raw = convert.to_onnx(model.residual, len(FEATURES))
    return convert.check_agreement(raw, model.residual, data.features)


def _law(seed: int) -> float:
    model = LawFamily().fit(aiwc_rows(), seed)
    return check_graph(law_onnx(model), model)


def _llm(seed: int) -> float:
    data = table(TTFT)
    fitted = fit_llm(data, seed)
    raw = llm_onnx.to_onnx(fitted.process)
    return llm_onnx.check_agreement(raw, fitted.process, data.ties, data.numbers)


def _steps(seed: int) -> float:
    steps = step_rows.cpu()
    learnt = fit_steps(steps, seed=seed)
    features = learnt.features(steps)
    if learnt.process is None:
        return float("nan")
    raw = learnt.process.onnx()
    return agreement(raw, {"features": features}, learnt.process(features), TOLERANCE)
