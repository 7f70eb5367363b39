"""Training steps: the shipped law, trees and process on timm's rows and our own."""

from __future__ import annotations

from lab.gate.part import Work
from lab.steps import labels
from lab.steps.training_parts import Session
from lab.steps.training_runs import OURS, TIME, table

SPLITS = {
    "rows": "rows at random, 70:30 in each family, five seeds",
    "model": "unseen model",
    "family": "unseen family",
}


def figures(work: Work) -> dict[str, float]:
    """Mean errors and shares within 10 % of the step time, by split."""
    session = Session(work.seed, work.folder, work.advance)
    made: dict[str, float] = {}
    for data, steps in (("gpu", labels.gpu()), ("cpu", labels.cpu())):
        for row in table(data, steps, session, only=(OURS,)):
            for short, split in SPLITS.items():
                if (row.split, row.target) == (split, TIME):
                    made[f"{data}.{short}.mape"] = row.figures.mape
                    made[f"{data}.{short}.within"] = row.figures.within
    return made
