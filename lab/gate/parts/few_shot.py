"""A new platform with few labels: programs (RAJAPerf)."""

from __future__ import annotations

from berth.predictor.hardware import platforms
from lab.gate.part import Work
from lab.kernels.examples import read_examples
from lab.kernels.few_shot import LABELS, evaluate_adapted

SAMPLES = (0, 16)


def figures(work: Work) -> dict[str, float]:
    """Return median errors at 0 and 16 labels, and coverage at 16."""
    made: dict[str, float] = {}
    for curve in evaluate_adapted(
        read_examples(), platforms.shipped(), seed=work.seed, advance=work.advance
    ):
        for k in SAMPLES:
            made[f"{curve.platform}.{k}"] = curve.error[LABELS.index(k)]
        made[f"{curve.platform}.coverage"] = curve.coverage[LABELS.index(16)]
    return made
