"""Programs: the shipped family on RAJAPerf, every kernel held out in turn."""

from __future__ import annotations

from berth.predictor.hardware import platforms
from lab.gate.part import Work
from lab.kernels.evaluate_programs import SHIPPED, evaluate_methods
from lab.kernels.examples import read_examples

TASKS = {
    "quartz-v100": "quartz core -> V100",
    "genoa-quartz": "epyc-genoa-vm -> quartz core",
    "genoa-v100": "epyc-genoa-vm -> V100",
}
SHOWN = {
    "median": "median_error", "mean": "mean_error", "r2": "r2_log",
    "tau": "kendall_tau", "coverage": "coverage",
}  # fmt: skip


def figures(work: Work) -> dict[str, float]:
    """Return errors, order and coverage of the three tasks."""
    found = evaluate_methods(
        read_examples(), platforms.shipped(), seed=work.seed, advance=work.advance
    )  # fmt: skip
    made: dict[str, float] = {}
    for result in found:
        for task, name in TASKS.items():
            if (result.split, result.family) == (name, SHIPPED):
                for short, figure in SHOWN.items():
                    made[f"{task}.{short}"] = float(getattr(result.figures, figure))
    return made
