"""The evaluation of relative performance as text: a table for each split, and a report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from berth.pilot.documents import write_text
from berth.predictor.learning.relative.evaluation import SHOWN, Evaluation, Result
from lab.relative import bars

_COLUMNS = (
    ("regret", "regret", "{:.3f}"),
    ("worst", "worst_regret", "{:.2f}"),
    ("tau", "kendall_tau", "{:.3f}"),
    ("median error", "median_time_error", "{:.1%}"),
    ("mean error", "mean_time_error", "{:.0%}"),
    ("of speedup", "median_speedup_error", "{:.1%}"),
    ("R2 log", "r2_log_speedup", "{:.3f}"),
    ("pairs right", "pairs_right", "{:.1%}"),
    ("order of 4", "order_of_four", "{:.1%}"),
    ("ROC", "order_of_four_roc_area", "{:.2f}"),
)
HEADER = ("family", *(title for title, _, _ in _COLUMNS))
MEANING = (
    "Regret: geometric mean of the time on the platform picked over the least time; worst: of an "
    "application. Errors of time and of speedup: medians (mean) of an application, averaged. "
    "Pairs: of those over 5 % apart. Order of 4: the whole order of four platforms; ROC: the area "
    "under the curve of whether that order is the usual one."
)

RERUN = "no method: what measuring again on every platform would reach as the prediction"


def table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """One row a family, in the order of ``HEADER``."""
    return [(result.family, *_cells(result.figures)) for result in results]


def rerun_row(found: Evaluation) -> list[tuple[str, ...]]:
    """The same of measuring again on every platform; nothing where that is not known."""
    return [(name, *_cells(figures)) for name, figures in found.rerun.items()]


def _cells(figures: Mapping[str, float]) -> list[str]:
    return [form.format(figures[key]) if key in figures else "-" for _, key, form in _COLUMNS]


def by_split(found: Evaluation) -> list[tuple[str, list[Result]]]:
    """Split in words -> its results."""
    return [
        (f"{split.name}: {split.what}", [r for r in found.results if r.split == split.name])
        for split in SHOWN
        if any(r.split == split.name for r in found.results)
    ]


def write_report(found: Evaluation, folder: Path) -> None:
    """``report.md`` and ``evaluation.json`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "evaluation.json", json.dumps(found.as_dict(), indent=1) + "\n")
    lines = [
        "# Relative performance: every family by every split",
        "",
        f"{found.data}: {found.rows} rows, {found.applications} applications, "
        f"{len(found.platforms)} platforms, piloted on `{found.reference}`. "
        f"Mean of seeds {', '.join(map(str, found.seeds))}.",
        "",
        MEANING,
    ]
    for title, results in by_split(found):
        lines += [
            "",
            f"## {title}",
            "",
            "| " + " | ".join(HEADER) + " |",
            "|---" * len(HEADER) + "|",
        ]
        lines += ["| " + " | ".join(row) + " |" for row in table(results)]
        lines += ["", "Regret by application, and its range over seeds:", ""]
        names = sorted(results[0].regret_by_application) if results else []
        lines += ["| family | " + " | ".join(names) + " | range |", "|---" * (len(names) + 2) + "|"]
        lines += [
            f"| {r.family} | "
            + " | ".join(f"{r.regret_by_application[name]:.2f}" for name in names)
            + f" | {r.low['regret']:.3f} to {r.high['regret']:.3f} |"
            for r in results
        ]
    if found.rerun:
        lines += ["", f"## {RERUN}", "", "| " + " | ".join(HEADER) + " |"]
        lines += ["|---" * len(HEADER) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in rerun_row(found)]
    if told := bars.verdicts_of(found):
        lines += ["", f"## Bars, and what `{bars.SHIPPED}` does", ""]
        lines += ["| " + " | ".join(bars.HEADER) + " |", "|---" * len(bars.HEADER) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in told]
    lines += ["", "## Families", ""]
    families = {r.family: r.what for r in found.results}
    lines += [f"- {name}: {what}" for name, what in families.items()]
    lines += [f"- {group}: left out, {why}" for group, why in found.left_out.items()]
    write_text(folder / "report.md", "\n".join(lines) + "\n")
