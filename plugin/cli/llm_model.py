"""Training and evaluating the predictor of language models: ``berth train|evaluate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from berth.pilot.documents import write_text
from berth.pilot.errors import DocumentError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import read_figures, require_training

if TYPE_CHECKING:
    from berth.predictor.evaluation.llm.run import LlmEvaluation
    from berth.predictor.llm.bundle import Likeness, Width

_HEADER = ("method", "rows", "median", "mean", "p90", "tau", "in 90 %", "x")


def train_llm(out: Path, seed: int, figures: Path | None) -> None:
    """The bundle from LLM-Inference-Bench and aiconfigurator's measurements."""
    require_training("training")
    from berth.predictor.training.llm.train import STEPS, train  # noqa: PLC0415 - the extra

    with step_bar("training", STEPS) as advance:
        manifest = train(
            out,
            seed=seed,
            command=" ".join(["berth", *sys.argv[1:]]),
            figures={} if figures is None else read_figures(figures),
            widths=None if figures is None else _read_widths(figures),
            advance=advance,
        )
    rows = sum(entry.rows for entry in manifest.heads)
    click.echo(f"{manifest.id}: {len(manifest.heads)} quantities of {rows} rows, written to {out}")


def evaluate_llm(seed: int, report: Path | None, *, as_json: bool) -> None:
    """Every split of every quantity, with the rivals."""
    require_training("evaluation")
    from berth.predictor.evaluation.llm.run import STEPS, evaluate  # noqa: PLC0415

    with step_bar("evaluating", STEPS) as advance:
        found = evaluate(seed, report, advance)
    text = json.dumps(found.as_dict(), indent=1)
    tables = _tables(found)
    if report is not None:
        write_text(report / "evaluation.json", text + "\n")
        write_text(report / "report.md", f"```\n{tables}\n```\n")
    click.echo(text if as_json else tables)


def _tables(found: LlmEvaluation) -> str:
    from berth.predictor.evaluation.llm.run import TASKS, WORDS  # noqa: PLC0415

    lines = ["Errors are |predicted / measured - 1|; nothing was fitted on the rows scored."]
    for head, title in TASKS.items():
        for split, words in WORDS.items():
            rows = [
                (
                    r.method,
                    str(r.rows),
                    f"{r.median_error:.1%}",
                    f"{r.mean_error:.1%}",
                    f"{r.p90_error:.1%}",
                    f"{r.kendall_tau:.3f}",
                    "-" if r.coverage_90 is None else f"{r.coverage_90:.1%}",
                    "-" if r.factor_90 is None else f"{r.factor_90:.2f}",
                )
                for r in found.results
                if (r.head, r.split) == (head, split)
            ]
            lines += ["", f"{title}. Split: {words}", columns(_HEADER, rows)]
        each = ", ".join(f"{n} {v:.1%}" for n, v in found.by_accelerator[head].items())
        lines += ["", f"Median error where the accelerator was unseen: {each}"]
    for head, (no, ran) in found.refused.items():
        lines += ["", f"{head}: {no} of {ran} configurations that ran were said not to fit"]
    lines += ["", "Peak memory, energy and carbon have no public labels: not evaluated."]
    return "\n".join(lines)


def _read_widths(path: Path) -> dict[str, dict[Likeness, Width]]:
    from berth.predictor.llm.bundle import Likeness, Width  # noqa: PLC0415

    try:
        data = json.loads(path.read_text(encoding="utf-8"))["widths"]
        return {
            head: {Likeness(name): Width(**width) for name, width in found.items()}
            for head, found in data.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        raise DocumentError(
            path,
            "is not an evaluation of language models",
            hint="`berth evaluate --task llm --report DIR` writes one",
        ) from None
