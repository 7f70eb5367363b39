"""Peak memory of workflow tasks from past peaks, beside the largest peak so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from lab.datasets.sizey import DEVELOPED_ON, REPORTED, task_runs
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.history.peak_sizes import CAREFUL, PeakPredictor
from lab.history.peaks import LargestSoFar, Predicted, Preset, Sizer, Waste, waste

METHODS: dict[str, Callable[[], Sizer]] = {
    "preset": Preset,
    "1.1 x largest so far": LargestSoFar,
    "predicted": lambda: Predicted(PeakPredictor()),
    "predicted, careful": lambda: Predicted(PeakPredictor(CAREFUL)),
}
BASELINE = "1.1 x largest so far"
_ORDERS = {"start": True, "completion": False}


@dataclass(frozen=True, slots=True)
class Row:
    """One method on some workflows."""

    order: str
    workflows: str
    method: str
    runs: int
    undersized: int
    over_baseline: float
    """Waste, over the baseline's: the geometric mean over the workflows."""
    over_preset: float


def evaluate(options: Options) -> Report:
    """Both orders; ``--only`` names workflows, else all six."""
    unknown = set(options.only) - {*DEVELOPED_ON, *REPORTED}
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))}: no such workflow",
            hint=f"known: {', '.join((*DEVELOPED_ON, *REPORTED))}",
        )
    wanted = options.only or (*DEVELOPED_ON, *REPORTED)
    runs = {name: task_runs(name) for name in wanted}
    rows = []
    for order, by_start in _ORDERS.items():
        found = {
            (name, method): waste(runs[name], make(), by_start=by_start)
            for name in wanted
            for method, make in METHODS.items()
        }
        groups: dict[str, tuple[str, ...]] = {name: (name,) for name in wanted}
        for title, of in (("developed on", DEVELOPED_ON), ("reported once", REPORTED)):
            groups[title] = tuple(name for name in of if name in wanted)
        groups["all"] = tuple(wanted)
        for title, names in groups.items():
            if names:
                rows += [_row(order, title, method, names, found) for method in METHODS]
    return Report(
        "Memory of workflow tasks from past peaks (Sizey's traces)",
        ("Waste in byte-seconds: asked for and not held, and undersized attempts, repeated with "
         "the preset.", "In order of start from tasks that had ended by then; in order of "
         "completion more is known than can be. Geometric means over workflows."),
        tuple(
            Section(f"In order of {order}",
                    ("workflows", "method", "runs", "undersized", "share", "waste / baseline",
                     "waste / preset"),
                    [(r.workflows, r.method, str(r.runs), str(r.undersized),
                      f"{r.undersized / r.runs:.2%}", f"{r.over_baseline:.3f}",
                      f"{r.over_preset:.3f}") for r in rows if r.order == order])
            for order in _ORDERS
        ),
        {"rows": rows},
    )  # fmt: skip


def _row(
    order: str,
    title: str,
    method: str,
    names: tuple[str, ...],
    found: dict[tuple[str, str], Waste],
) -> Row:
    own = [found[name, method] for name in names]
    return Row(
        order,
        title,
        method,
        sum(one.runs for one in own),
        sum(one.undersized for one in own),
        _mean_ratio(own, [found[name, BASELINE] for name in names]),
        _mean_ratio(own, [found[name, "preset"] for name in names]),
    )


def _mean_ratio(own: list[Waste], other: list[Waste]) -> float:
    logs = [math.log(a.byte_seconds / b.byte_seconds) for a, b in zip(own, other, strict=True)]
    return math.exp(sum(logs) / len(logs))
