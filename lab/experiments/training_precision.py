"""Training steps in a precision that no step was learnt in."""

from __future__ import annotations

import math

import numpy as np

from berth.pilot.documents import to_json, write_text
from berth.plugin.cli.train.training_input import command_line
from berth.predictor.core.bundle_writing import now
from berth.predictor.families.training_step.step_precision import FILE, PrecisionWidth
from lab.datasets.neusight import MODELS
from lab.experiments.options import Options
from lab.ground.figures import figures
from lab.ground.report import Report, Section
from lab.steps.other_precision import SPLIT, Step, coverage, log_width, steps

HEADER = (
    "GPU", "models", "rows", "mean error", "median", "predicted / measured", "as in mixed precision"
)  # fmt: skip


def evaluate(options: Options) -> Report:
    """By GPU, and all."""
    rows = steps()
    names = sorted({row.platform for row in rows})
    table = [_line(name, [row for row in rows if row.platform == name]) for name in names]
    return Report(
        "Training in fp32 on GPUs, moved from mixed precision by the ratio of roofs",
        (
            f"Split: {SPLIT}. Errors are |predicted / measured - 1| of a step of a language model.",
            f"90 % interval: a factor of {math.exp(log_width(rows)):.2f}, which holds "
            f"{coverage(rows):.0%} of the rows of GPUs that it is not from.",
        ),
        (Section("Held out", HEADER, [*table, _line("all", rows)]),),
        {"split": SPLIT, "rows": rows},
    )


def _line(name: str, rows: list[Step]) -> tuple[str, ...]:
    models = np.array([row.model for row in rows])
    measured, here, mixed = np.log(
        [(row.measured_s, row.predicted_s, row.as_mixed_s) for row in rows]
    ).T
    found, baseline = figures(measured, here, models), figures(measured, mixed, models)
    return (
        name, str(len(set(models))), str(found.rows), f"{found.mean_error:.1%}",
        f"{found.median_error:.1%}", f"{found.bias:.2f}", f"{baseline.mean_error:.1%}",
    )  # fmt: skip


def train(options: Options) -> str:
    """``step_precision.json`` in the folder that is given."""
    rows = steps()
    made = PrecisionWidth(
        command=command_line(), created=now(), sources={MODELS.path: MODELS.sha256}, split=SPLIT,
        log_width=round(log_width(rows), 4),
        groups=len({(row.platform, row.model) for row in rows}), rows=len(rows),
        coverage=round(coverage(rows), 4),
    )  # fmt: skip
    write_text(options.bundle / FILE.name, to_json(made))
    return f"{made.rows} steps of {made.groups} models on GPUs"
