"""Error on a new platform against the number of its labels, and before and after calibration."""

from __future__ import annotations

from collections.abc import Sequence

from berth.plugin.cli.output.step_bar import step_bar
from berth.predictor.hardware import platforms
from berth.predictor.learning.resume import Resume
from lab.experiments.options import Options
from lab.ground import new_machines
from lab.ground.report import Report, Section
from lab.kernels import few_shot as of_programs
from lab.kernels.examples import read_examples
from lab.relative import families
from lab.relative import few_shot as of_relative
from lab.relative.data import AIWC_DATA, aiwc_rows
from lab.relative.evaluation import loaded


def evaluate(options: Options) -> Report:
    """Every family on AIWC, each device in turn new; the default family on RAJAPerf."""
    rows = aiwc_rows()
    wanted, left_out = loaded(families.chosen(options.only))
    steps = len(wanted) * of_relative.steps(rows) + 2 * of_programs.steps()
    with step_bar("evaluating", steps) as advance:
        examples, known = read_examples(), platforms.load()
        curves = of_programs.evaluate_adapted(examples, known, seed=options.seed, advance=advance)
        machines = of_programs.evaluate_new(examples, known, seed=options.seed, advance=advance)
        resume = Resume(options.unfinished)
        results = [
            of_relative.few_shot(rows, family, seed=options.seed, resume=resume, advance=advance)
            for family in wanted
        ]
    counts = tuple(f"k = {k}" for k in of_relative.LABELS)
    relative = Section(
        f"{AIWC_DATA}: median error of times on the new device. Split: {of_relative.SPLIT}",
        ("family", "signature", *counts, "all labels"),
        [
            (result.family, words, *_spread(curve), f"{result.all_labels:.0%}")
            for result in results
            for words, curve in (("none", result.plain), ("anchor kernels", result.signed))
        ],
    )
    programs = Section(
        f"Default family, RAJAPerf. Split: {of_programs.SPLIT}",
        ("new platform", "figure", *counts),
        [
            (f"{curve.platform} from the prior of {curve.prior_of}", words, *cells)
            for curve in curves
            for words, cells in (
                ("median error", _spread(curve)),
                ("mean log error", [f"{value:.3f}" for value in curve.mean_log_error]),
                ("90 % coverage", [f"{value:.0%}" for value in curve.coverage]),
                ("upper / middle", [f"{value:.1f}" for value in curve.factor]),
            )
        ],
    )
    calibrated = [
        new_machines.section(
            f"Default family, RAJAPerf, before and after calibration. Split: {of_programs.SPLIT}",
            machines,
        ),
        *(
            new_machines.section(
                f"{result.family}, {AIWC_DATA}, before and after calibration by "
                f"{of_relative.SUITE} workloads. Split: {of_relative.SPLIT}",
                [
                    *result.machines,
                    new_machines.together(f"mean of {len(result.machines)}", result.machines),
                ],
            )
            for result in results
        ),
    ]
    return Report(
        "Programs on a platform that few workloads were timed on",
        sections=(relative, programs, *calibrated),
        data={
            "split": of_relative.SPLIT, "labels": of_relative.LABELS, "results": results,
            "default_family": curves, "new_machines": machines, "left_out": left_out,
        },
        after=tuple(f"left out: {group} ({why})" for group, why in left_out.items()),
    )  # fmt: skip


def _spread(curve: of_relative.Curve | of_programs.AdaptedCurve) -> Sequence[str]:
    values = zip(curve.error, curve.low, curve.high, strict=True)
    return [f"{mid:.0%} ({low:.0%} to {high:.0%})" for mid, low, high in values]
