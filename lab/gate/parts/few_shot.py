"""A new platform with few labels: programs (RAJAPerf) and the cost model (AIWC)."""

from __future__ import annotations

from berth.predictor.hardware import platforms
from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.kernels.examples import read_examples
from lab.kernels.few_shot import LABELS, evaluate_adapted
from lab.relative import families
from lab.relative.data import aiwc_rows
from lab.relative.few_shot import few_shot

SAMPLES = (0, 16)


def figures(work: Work) -> dict[str, float]:
    """Return median errors at 0 and 16 labels."""
    made: dict[str, float] = {}
    for curve in evaluate_adapted(
        read_examples(), platforms.shipped(), seed=work.seed, advance=work.advance
    ):
        for k in SAMPLES:
            made[f"{curve.platform}.{k}"] = curve.error[LABELS.index(k)]
        made[f"{curve.platform}.coverage"] = curve.coverage[LABELS.index(16)]
    resume = Resume(work.folder)
    costs = few_shot(
        aiwc_rows(), families.COST_MODEL, seed=work.seed, resume=resume, advance=work.advance
    )
    made["cost-model.16"] = costs.plain.error[LABELS.index(16)]
    made["cost-model.signature"] = costs.signed.error[0]
    return made
