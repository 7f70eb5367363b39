"""The predictor of language models."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from berth.pilot.errors import DocumentError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import learn, read_figures
from lab.experiments.options import Options
from lab.experiments.shown import show

if TYPE_CHECKING:
    from berth.predictor.families.language_model.bundle import Likeness, Width
    from lab.llm.run import LlmEvaluation

_HEADER = ("method", "rows", "median", "mean", "p90", "tau", "in 90 %", "x")


def train(options: Options) -> str:
    """The bundle from LLM-Inference-Bench and aiconfigurator's measurements."""
    from lab.llm.train import STEPS  # noqa: PLC0415 - needs the extra
    from lab.llm.train import train as run  # noqa: PLC0415

    read_figures(options.figures)  # a file that is no evaluation is told before one without widths
    widths = None if options.figures is None else _read_widths(options.figures)
    manifest = learn(options, partial(run, widths=widths), STEPS)
    rows = sum(entry.rows for entry in manifest.heads)
    return f"{manifest.id}: {len(manifest.heads)} quantities of {rows} rows"


def evaluate(options: Options) -> None:
    """Every split of every quantity, with the baselines."""
    from lab.llm.run import STEPS  # noqa: PLC0415
    from lab.llm.run import evaluate as run  # noqa: PLC0415

    with step_bar("evaluating", STEPS) as advance:
        found = run(options.seed, options.report, advance)
    show(options, found.as_dict(), _tables(found), page=True)


def _tables(found: LlmEvaluation) -> str:
    from lab.llm.run import TASKS, WORDS  # noqa: PLC0415

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
    from berth.predictor.families.language_model.bundle import Likeness, Width  # noqa: PLC0415

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
            hint="`python -m lab language-models --report DIR` writes one",
        ) from None
