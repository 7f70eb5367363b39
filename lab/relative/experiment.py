"""The experiment ``relative``: evaluate all families on all splits, train the cost model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from berth.pilot.documents import write_text
from berth.pilot.errors import UsageError
from berth.plugin.cli.train.command import of_relative, train_relative
from berth.plugin.cli.train.training_input import SiteInput, site_input
from berth.plugin.pictures import explained
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.relative.explain import AXES, SHARES, explain_cost_model
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Neighbours
from berth.predictor.learning.relative.cost_model_family import CostModelFamily
from lab.datasets import aiwc
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.resume import Resume
from lab.relative import evaluation, families
from lab.relative.data import AIWC_DATA, aiwc_rows
from lab.relative.evaluation import Entry, Evaluation, Result
from lab.relative.orders import order_figures

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
SHIPPED = families.COST_MODEL.name
BARS = (
    ("unseen application", "regret", "<=", 1.12),
    ("unseen application", "worst_regret", "<=", 1.5),
    ("unseen application", "kendall_tau", ">=", 0.75),
    ("unseen application", "median_time_error", "<=", 0.60),
    ("unseen application", "median_speedup_error", "<=", 0.60),
    ("unseen size", "r2_log_speedup", ">=", 0.95),
    ("unseen size", "regret", "<=", 1.03),
    ("unseen size, new counters", "r2_log_speedup", ">=", 0.95),
    ("unseen size, new counters", "regret", "<=", 1.03),
    ("random rows", "r2_log_speedup", ">=", 0.95),
    ("random rows", "order_of_four", ">=", 0.91),
    ("random rows", "pairs_right", ">=", 0.95),
)
"""Targets of the shipped family on AIWC: split, figure, comparison, limit."""


def train(options: Options) -> str:
    """Write a bundle of the cost model from a site's measurements, or from the AIWC data set.

    Return a summary. Raises UsageError for ``--figures``, because figures are computed here.
    """
    if options.figures is not None:
        raise UsageError("relative computes its own figures; leave out --figures")
    site = site_input(options.profiles, options.reference, options.platforms)
    if site is not None:
        return of_relative(train_relative(site, options.bundle, options.seed))
    public = SiteInput(aiwc_rows(), aiwc.AIWC.title, dict(aiwc.KINDS), {})
    source = {aiwc.AIWC.path: aiwc.AIWC.sha256}
    return of_relative(train_relative(public, options.bundle, options.seed, source))


def evaluate(options: Options) -> Report:
    """Evaluate all families (or those in ``options.only``) on a site's rows, or else on AIWC."""
    site = site_input(options.profiles, options.reference, options.platforms)
    entries = families.chosen(options.only)
    if site is None:
        return evaluate_on_aiwc(options, entries)
    entries = families.for_kinds(entries, site.kinds)
    found = _evaluated(options, site.rows, entries, site.title)
    return _drawn(options, site.rows, CostModelFamily(kinds=site.kinds), report_of(found))


def evaluate_on_aiwc(options: Options, entries: Sequence[Entry]) -> Report:
    """Evaluate the families of ``entries`` on AIWC."""
    rows = aiwc_rows()
    found = _evaluated(options, rows, entries, AIWC_DATA)
    return _drawn(options, rows, families.COST_MODEL, report_of(found))


def _evaluated(options: Options, rows: Rows, entries: Sequence[Entry], data: str) -> Evaluation:
    seeds = options.every_seed
    with step_bar("evaluating", evaluation.steps(rows, entries, seeds)) as advance:
        return evaluation.evaluate(
            rows, entries, data=data, seeds=seeds, resume=Resume(options.unfinished),
            more_figures=order_figures, advance=advance,
        )  # fmt: skip


def _drawn(options: Options, rows: Rows, model: CostModelFamily, report: Report) -> Report:
    """Draw the applications if the cost model was evaluated and a report is written.

    Return ``report`` unchanged.
    """
    families_shown = {result["family"] for result in report.data["results"]}
    if options.report is not None and SHIPPED in families_shown:
        draw_applications(rows, model, options.report, options.seed)
    return report


def report_of(found: Evaluation) -> Report:
    """Return the report, with a table of figures and a table of regrets for each split."""
    sections = []
    for split in evaluation.SHOWN:
        if not (results := [r for r in found.results if r.split == split.name]):
            continue
        title = f"{split.name}: {split.what}"
        sections.append(Section(title, HEADER, [(r.family, *_cells(r.figures)) for r in results]))
        names = sorted(results[0].regret_by_application)
        sections.append(
            Section(
                f"{split.name}: regret by application, and its range over seeds",
                ("family", *names, "range"),
                [
                    (
                        r.family,
                        *(f"{r.regret_by_application[name]:.2f}" for name in names),
                        f"{r.low['regret']:.3f} to {r.high['regret']:.3f}",
                    )
                    for r in results
                ],
            )
        )
    if set(found.platforms) == set(aiwc.KINDS) and (verdicts := verdicts_of(found.results)):
        header = ("split", "figure", "bar", "is", "")
        sections.append(Section(f"Bars, and what {SHIPPED!r} reaches", header, verdicts))
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
        after=(
            *dict.fromkeys(f"{r.family}: {r.what}" for r in found.results),
            *(f"left out: {group} ({why})" for group, why in found.left_out.items()),
        ),
    )  # fmt: skip


def verdicts_of(results: Sequence[Result], family: str = SHIPPED) -> list[tuple[str, ...]]:
    """Return a table row for each target that ``family`` was evaluated on: met or missed.

    The unrounded figure decides.
    """
    found = {result.split: result.figures for result in results if result.family == family}
    rows: list[tuple[str, ...]] = []
    for split, figure, sense, bound in BARS:
        if (value := found.get(split, {}).get(figure)) is not None:
            met = value <= bound if sense == "<=" else value >= bound
            rows.append(
                (split, figure, f"{sense} {bound:g}", f"{value:.4f}", "met" if met else "missed")
            )
    return rows


def _cells(figures: Mapping[str, float]) -> list[str]:
    return [form.format(figures[key]) if key in figures else "-" for _, key, form in _COLUMNS]


LIST = "explanations.md"
MOST = 12
"""Greatest number of applications that are drawn; those that run longest are chosen."""


def draw_applications(rows: Rows, family: CostModelFamily, folder: Path, seed: int) -> list[Path]:
    """Write ``why-APPLICATION.svg`` for up to ``MOST`` applications and their text in ``LIST``.

    Each picture explains the predictions for the application's longest row, by a cost model
    trained on the other applications. Return the paths of the pictures. Raises ToolMissing.
    """
    lines, pictures = ["# Why each application runs as it does elsewhere", ""], []
    lines += [
        "The longest row of each, by a cost model that learnt from all other applications.",
        "",
    ]
    names = np.array(rows.applications)
    longest = {name: float(rows.log_reference[names == name].max()) for name in names.tolist()}
    for name in sorted(sorted(longest, key=lambda n: -longest[n])[:MOST]):
        held, rest = np.flatnonzero(names == name), np.flatnonzero(names != name)
        row = rows.take([int(held[rows.log_reference[held].argmax()])])
        train = rows.take(rest.tolist())
        model = family.fit(train, seed)
        found = explain_cost_model(model, Neighbours.fit(train).centre, row)
        found.sort(key=lambda one: -one.speedup)
        path = folder / f"why-{re.sub('[^A-Za-z0-9_.-]', '_', name)}.svg"
        program = f"{row.applications[0]} {row.kernels[0]} ({row.sizes[0]})"
        explained.draw(path, program, found, AXES, SHARES)
        pictures.append(path)
        lines += [f"## {program}", "", f"![{name}]({path.name})", ""]
        lines += [f"- {one.sentence()}" for one in found if not one.at_home] + [""]
    write_text(folder / LIST, "\n".join(lines))
    return pictures
