"""Training in fp32 on GPUs, from what was learnt in mixed precision on an RTX 3090.

NeuSight's training rows are the only ones in another precision: language models in fp32 (TF32 off),
forward and backward without an optimiser's step, on GPUs of other vendors and generations. Nothing
is fitted on them; only the width of the interval is theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.documents import to_json, write_text
from berth.plugin.cli.train.training_input import command_line
from berth.predictor.core.bundle_writing import now
from berth.predictor.families.training_step.predictor import PRECISION_FILE, PrecisionWidth, predict
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import known_unit, unit_named
from lab.datasets.neusight import MODELS, WholeModel
from lab.experiments.experiment import Options
from lab.ground.figures import figures
from lab.ground.report import Report, Section
from lab.operators.transformer_operators import model_graph
from lab.operators.whole_models import usable

SPLIT = "nothing fitted on these GPUs, models or this precision; widths from the other GPUs' rows"


@dataclass(frozen=True, slots=True)
class Step:
    """One measured training step and what is predicted of it."""

    platform: str
    model: str
    measured_s: float
    predicted_s: float
    as_mixed_s: float
    """What mixed precision would take: the baseline that does not look at the precision."""

    @property
    def off(self) -> float:
        """Return log of predicted over measured."""
        return math.log(self.predicted_s / self.measured_s)


def steps() -> list[Step]:
    """Return every training row on a GPU that Berth has a platform of. Raises ToolMissing."""
    known = platforms.shipped()
    named = {
        unit.sheet.name: name
        for name, platform in known.items()
        if (unit := known_unit(platform, known)) is not None and unit.whole
    }
    return [
        _step(row, place)
        for row in usable()
        if row.training
        and not row.option
        and (place := named.get(unit_named(row.device).sheet.name)) is not None
    ]


def _step(row: WholeModel, place: str) -> Step:
    graph, known = model_graph(row.model, row.batch, row.sequence), platforms.shipped()
    (found,) = predict(graph, [place], known, numbers=Numbers.FP32)
    (mixed,) = predict(graph, [place], known)
    return Step(place, row.model, row.seconds, found.seconds.mid, mixed.seconds.mid)


def log_width(rows: Sequence[Step]) -> float:
    """Return half width of the 90 % interval: the largest error, as the models on GPUs are few."""
    return max(abs(row.off) for row in rows)


def coverage(rows: Sequence[Step]) -> float:
    """Return the share covered of each GPU's rows, by the width of the other GPUs' rows; GPUs weigh
    the same."""
    inside = []
    for name in sorted({row.platform for row in rows}):
        wide = log_width([row for row in rows if row.platform != name])
        inside.append(np.mean([abs(row.off) <= wide for row in rows if row.platform == name]))
    return float(np.mean(inside))


HEADER = (
    "GPU", "models", "rows", "mean error", "median", "predicted / measured", "as in mixed precision"
)  # fmt: skip


def evaluate(_: Options) -> Report:
    """Report the errors of each GPU, and of all."""
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
    write_text(options.bundle / PRECISION_FILE.name, to_json(made))
    return f"{made.rows} steps of {made.groups} models on GPUs"
