"""Training steps: the shipped cost model, trees and process on timm's rows and our own."""

from __future__ import annotations

from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.steps import step_rows
from lab.steps.evaluate_steps import table
from lab.steps.step_methods import shipped
from lab.steps.step_rows import TARGETS

SPLITS = {
    "rows": "rows at random, 70:30 in each family, five seeds",
    "model": "unseen model",
    "family": "unseen family",
}


def figures(work: Work) -> dict[str, float]:
    """Return mean errors and shares within 10 % of the step time, by split."""
    made: dict[str, float] = {}
    for data, steps in (("gpu", step_rows.gpu()), ("cpu", step_rows.cpu())):
        for row in table(
            data,
            steps,
            (shipped(),),
            seed=work.seed,
            resume=Resume(work.folder),
            advance=work.advance,
        ):
            for short, split in SPLITS.items():
                if (row.split, row.rows_of) == (split, TARGETS[0]):
                    made[f"{data}.{short}.mape"] = row.figures.mean_error
                    made[f"{data}.{short}.within"] = row.figures.within_10
    return made
