"""Largest difference between a trained model and its ONNX export, for every kind that ships."""

from __future__ import annotations

from berth.predictor.families.program.features import FEATURES
from berth.predictor.hardware import platforms
from lab.gate.part import Work
from lab.ground.onnx_export import agreement
from lab.ground.trees_as_onnx import check_trees_agree, trees_to_onnx
from lab.kernels.examples import columns, read_examples
from lab.kernels.residual_model import fit
from lab.steps import step_rows
from lab.steps.fit_steps import fit as fit_steps
from lab.steps.step_bundle import TOLERANCE


def figures(work: Work) -> dict[str, float]:
    """Return differences in natural logarithms of seconds."""
    return {
        "kernels": _kernels(work.seed),
        "training-steps": _steps(work.seed),
    }


def _kernels(seed: int) -> float:
    known = platforms.shipped()
    examples = read_examples()
    data = columns(examples, known["lassen-v100"], known[examples[0].profile.platform])
    model = fit(data, seed)
    raw = trees_to_onnx(model.residual, len(FEATURES))
    return check_trees_agree(raw, model.residual, data.features)


def _steps(seed: int) -> float:
    steps = step_rows.cpu()
    learnt = fit_steps(steps, seed=seed, learners=("process",))
    if learnt.process is None:
        return float("nan")
    features = learnt.features(steps)
    expected = learnt.process(features)
    return agreement(learnt.process.onnx(), {"features": features}, expected, TOLERANCE)
