"""The experiment ``relative``: evaluate all families on all splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from berth.plugin.report.progress_bars import step_bar
from lab.datasets import aiwc
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.resume import Resume
from lab.relative import evaluation, families
from lab.relative.data import AIWC_DATA, aiwc_rows
from lab.relative.evaluation import SPLITS, Evaluation
from lab.relative.family import TimesLearner
from lab.relative.measurements import SiteInput
from lab.relative.orders import order_figures
from lab.relative.train import OnnxLearner, train_bundle

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


def train_on_aiwc(options: Options, family: OnnxLearner) -> str:
    """Write a bundle of ``family`` from AIWC; return a summary."""
    public = SiteInput(aiwc_rows(), aiwc.AIWC.title, dict(aiwc.KINDS), {})
    source = {aiwc.AIWC.path: aiwc.AIWC.sha256}
    return train_bundle(public, options.bundle, options.seed, family, source)


def evaluate_on_aiwc(options: Options, learners: Sequence[TimesLearner]) -> Report:
    """Report the errors of ``learners`` on AIWC."""
    rows, seeds = aiwc_rows(), options.every_seed
    with step_bar("evaluating", evaluation.steps(rows, learners, seeds)) as advance:
        return report_of(
            evaluation.evaluate(
                rows, learners, data=AIWC_DATA, seeds=seeds,
                resume=Resume(options.unfinished), more_figures=order_figures, advance=advance,
            )
        )  # fmt: skip


def evaluate(options: Options) -> Report:
    """Evaluate the cost model and its baselines."""
    return evaluate_on_aiwc(options, (*families.BASELINES, families.COST_MODEL))


def report_of(found: Evaluation) -> Report:
    """Return the report, with a table of figures for each split."""
    sections = []
    for split in SPLITS:
        if not (results := [r for r in found.results if r.split == split.name]):
            continue
        title = f"{split.name}: {split.what}"
        sections.append(Section(title, HEADER, [(r.family, *_cells(r.figures)) for r in results]))
    return Report(
        "Relative performance: every family by every split",
        (
            f"{found.data}: {found.rows} rows of {found.applications} applications, "
            f"{len(found.platforms)} platforms, piloted on {found.reference}; "
            f"mean of seeds {', '.join(map(str, found.seeds))}.",
            MEANING,
        ),
        tuple(sections),
        asdict(found),
        after=tuple(dict.fromkeys(f"{r.family}: {r.what}" for r in found.results)),
    )


def _cells(figures: Mapping[str, float]) -> list[str]:
    return [form.format(figures[key]) if key in figures else "-" for _, key, form in _COLUMNS]
