"""Training steps on several GPUs of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from berth.pilot.documents import to_json, write_text
from berth.plugin.cli.train.training_input import command_line
from berth.predictor.core.bundle_writing import now
from berth.predictor.families.training_step.data_parallel import FILE, DataParallel
from berth.predictor.learning.metrics import group_mean
from lab.datasets.gavel import THROUGHPUTS
from lab.experiments.options import Options
from lab.ground.figures import figures
from lab.ground.report import Report, Section
from lab.steps.data_parallel import (
    ALONE,
    SPLIT,
    Step,
    coverage,
    fit,
    held_out,
    log_ratio_by_number,
    measured_steps,
    other_link_width,
    width,
)

HEADER = ("rows of", "rows", "mean error", "median", "by number of GPUs", "n times one")


def evaluate(options: Options) -> Report:
    """A new model and a new device; then the device that nothing was learnt of."""
    rows, aside = measured_steps()
    learnt = fit(rows)
    by_number = log_ratio_by_number(rows)
    sections = []
    for title, by in (("a new model", _model), ("a new device", _device)):
        plain = dict(held_out(rows, by, log_ratio_by_number))
        found = [(one, own.log_ratio(one), plain[one](one)) for one, own in held_out(rows, by, fit)]
        inside = f"{coverage(rows, by):.0%} in the 90 % interval"
        sections.append(Section(f"{title}: {inside}", HEADER, _table(found)))
    others = [(one, learnt.log_ratio(one), by_number(one)) for one in aside]
    sections.append(
        Section("V100s of several machines, nothing learnt of them", HEADER, _table(others))
    )
    return Report(
        "Training on 2, 4 and 8 GPUs of a node from a step on one, Gavel's measurements",
        (
            f"Split: {SPLIT}. Errors are |predicted / measured - 1| of a step, "
            "models on a device weighing the same.",
            f"Learnt of all: {learnt.overhead:.1%} of a step, and {learnt.seen:.2f} of the ring's "
            "time at the link's rate by the data sheet.",
        ),
        tuple(sections),
        {"split": SPLIT, "learnt": learnt, "rows": rows, "aside": aside},
    )


def train(options: Options) -> str:
    """``data_parallel.json`` in the folder that is given."""
    rows, aside = measured_steps()
    learnt = fit(rows)
    made = DataParallel(
        command=command_line(), created=now(), sources={THROUGHPUTS.path: THROUGHPUTS.sha256},
        split=SPLIT, overhead=round(learnt.overhead, 4), seen=round(learnt.seen, 3),
        log_width=round(width(rows), 4),
        other_link_log_width=round(other_link_width(aside, learnt), 4),
        most=max(one.gpus for one in rows), groups=len({one.group for one in rows}),
        rows=len(rows), coverage=round(min(coverage(rows, by) for by in (_model, _device)), 4),
    )  # fmt: skip
    write_text(options.bundle / FILE.name, to_json(made))
    return f"{made.rows} steps of {made.groups} models on devices"


def _model(step: Step) -> str:
    return step.model


def _device(step: Step) -> str:
    return step.device


def _table(found: Sequence[tuple[Step, float, float]]) -> list[tuple[str, ...]]:
    """By device, by model, by number of GPUs, and of all; (row, ours, the baseline's)."""
    ways: tuple[Callable[[Step], str], ...] = (_device, _model, lambda one: f"{one.gpus} GPUs")
    lines = [
        (name, *_line([row for row in found if way(row[0]) == name]))
        for way in ways
        for name in sorted({way(one) for one, _, _ in found})
    ]
    return [*lines, ("all", *_line(found))]


def _line(found: Sequence[tuple[Step, float, float]]) -> tuple[str, ...]:
    measured, ours, plain = np.array([(one.log_ratio, a, b) for one, a, b in found]).T
    groups = np.array([one.group for one, _, _ in found])
    alone = np.array([ALONE.log_ratio(one) for one, _, _ in found])
    errors = [
        group_mean(np.abs(np.expm1(some - measured)), groups.tolist())
        for some in (ours, plain, alone)
    ]
    return (
        str(len(found)), f"{errors[0]:.1%}",
        f"{figures(measured, ours, groups).median_error:.1%}", f"{errors[1]:.1%}",
        f"{errors[2]:.1%}",
    )  # fmt: skip
