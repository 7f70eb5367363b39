"""The evaluation as text: a table for a task, and a Markdown report with the worst kernels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from berth.pilot.documents import write_text
from lab.kernels.run import SHIPPED, Evaluation, Result

HEADER = (
    "method", "R2 log speedup", "R2 log time", "median error", "mean error", "Kendall tau",
    "regret", "coverage", "interval x", "Winkler",
)  # fmt: skip
_WORST = 15


def table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """One row a method, in the order of ``HEADER``."""
    return [
        (
            result.method,
            f"{result.figures.r2_log_speedup:.2f}",
            f"{result.figures.r2_log_time:.2f}",
            f"{result.figures.median_error:.1%}",
            f"{result.figures.mean_error:.0%}",
            f"{result.figures.kendall_tau:.2f}",
            f"{result.figures.regret:.3f}",
            "-" if result.figures.coverage is None else f"{result.figures.coverage:.1%}",
            "-"
            if result.figures.interval_factor is None
            else f"{result.figures.interval_factor:.2f}",
            "-" if result.figures.winkler is None else f"{result.figures.winkler:.2f}",
        )
        for result in results
    ]


def by_task(evaluation: Evaluation) -> dict[str, list[Result]]:
    """Results grouped by task, in order."""
    found: dict[str, list[Result]] = {}
    for result in evaluation.results:
        found.setdefault(result.task, []).append(result)
    return found


def write_report(evaluation: Evaluation, folder: Path) -> None:
    """``report.md`` and ``evaluation.json`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "evaluation.json", json.dumps(evaluation.as_dict(), indent=1) + "\n")
    lines = [
        "# How good the predictions are",
        "",
        f"Split: {evaluation.split}.",
        f"Rows: {evaluation.rows} of {evaluation.kernels} kernels; seed {evaluation.seed}.",
        f"Labels: {evaluation.source}.",
        *(f"- `{name}`: {rows}" for name, rows in evaluation.labels.items()),
        "",
        "Errors are of the target's time; R2 of the logarithm; tau over pairs of different",
        "kernels; regret: geometric mean of the time where it was sent over the best; coverage",
        "and Winkler score (log time) of the nominal 90 % interval, whose upper end is the middle",
        "times `interval x` (median).",
    ]
    for task, results in by_task(evaluation).items():
        lines += [
            "",
            f"## {task}",
            "",
            "| " + " | ".join(HEADER) + " |",
            "|---" * len(HEADER) + "|",
        ]
        lines += ["| " + " | ".join(row) + " |" for row in table(results)]
        lines += _worst(next(r for r in results if r.method == SHIPPED))
    ranking = evaluation.ranking
    if ranking is not None:
        lines += [
            "",
            "## Choosing among our machine, one Quartz core and one V100",
            "",
            f"Kendall tau {ranking.kendall_tau:.3f}, regret {ranking.regret:.3f} (worst "
            f"{ranking.worst_regret:.2f}), best one chosen {ranking.right:.1%}.",
        ]
    write_text(folder / "report.md", "\n".join(lines) + "\n")


def _worst(result: Result) -> list[str]:
    rows = sorted(
        result.rows,
        key=lambda r: abs(float(r["predicted_s"]) / float(r["measured_s"]) - 1),
        reverse=True,
    )
    lines = ["", "Worst rows:", "", "| kernel | size | measured | predicted |", "|---|---|---|---|"]
    lines += [
        f"| {r['kernel']} | {float(r['size']):.0f} | {float(r['measured_s']):.3g} s "
        f"| {float(r['predicted_s']):.3g} s |"
        for r in rows[:_WORST]
    ]
    return lines
