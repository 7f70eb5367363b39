"""TraPPM beside the shipped predictor of training steps, on other devices too (long)."""

from __future__ import annotations

import numpy as np

from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.steps import moved_rates, step_rows
from lab.steps.evaluate_steps import ROWS, table
from lab.steps.step_methods import encoded, trappm_of
from lab.steps.step_rows import TARGETS

SPLITS = {
    ROWS: "rows",
    "unseen model": "model",
    "unseen family": "family",
}
CASES = {
    "training, 3090 -> one core of epyc-genoa-vm": "cpu",
    "inference as a stand-in, 3090 -> 5090": "5090",
    "inference as a stand-in, 3090 -> pro6000maxq": "pro6000",
}


def figures(work: Work) -> dict[str, float]:
    """Edges, mean errors of TraPPM on the RTX 3090, and of the shipped method elsewhere."""
    resume = Resume(work.folder)
    encoder = encoded(work.seed, resume, "auto-encoder", work.advance)
    made = {"edges.auc": float(encoder.about["edges"]["auc"])}
    for row in table(
        "gpu",
        step_rows.gpu(),
        (trappm_of(encoder),),
        seed=work.seed,
        resume=resume,
        advance=work.advance,
    ):
        if row.rows_of == TARGETS[0]:
            made[f"trappm.{SPLITS[row.split]}.mape"] = row.figures.mean_error
    for case, off in moved_rates.off_elsewhere(work.seed).items():
        made[f"moved.{CASES[case]}.0.mape"] = float(np.abs(np.expm1(off)).mean())
        work.advance()
    return made
