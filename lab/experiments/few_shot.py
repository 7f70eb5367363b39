"""Error against the labels of a new platform."""

from __future__ import annotations

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.predictor.hardware import platforms as known
from lab.experiments.options import Options
from lab.experiments.shown import show
from lab.kernels.examples import read_examples


def evaluate(options: Options) -> None:
    """Every family on AIWC, each device in turn new; the default family on RAJAPerf.

    With ``report`` the folds that are done are kept in it, and ``few-shot.json`` is written.
    """
    from berth.predictor.learning.relative.evaluation import loaded  # noqa: PLC0415
    from berth.predictor.learning.resume import Resume  # noqa: PLC0415
    from lab.datasets.aiwc import AIWC  # noqa: PLC0415 - needs the extra
    from lab.kernels import few_shot as adapted  # noqa: PLC0415
    from lab.relative import families, few_shot  # noqa: PLC0415
    from lab.relative.data import aiwc_rows  # noqa: PLC0415

    entries, rows = families.chosen(options.only), aiwc_rows()
    total = few_shot.steps(rows, len(loaded(entries)[0])) + adapted.steps()
    with step_bar("evaluating", total) as advance:
        curves = adapted.evaluate_adapted(
            read_examples(None),
            known.load(),
            seed=options.seed,
            advance=advance,
        )
        found = few_shot.evaluate_few_shot(
            rows,
            entries,
            data=f"{AIWC.title} ({AIWC.licence})",
            seed=options.seed,
            resume=Resume(options.unfinished),
            advance=advance,
        )
    counts = tuple(f"k = {k}" for k in found.labels)
    told = [f"{found.data}: median error of times on the new device.\nSplit: {found.split}."]
    lines = []
    for result in found.results:
        for words, curve in (("none", result.plain), ("anchor kernels", result.signed)):
            spread = zip(curve.error, curve.low, curve.high, strict=True)
            cells = [f"{mid:.0%} ({low:.0%} to {high:.0%})" for mid, low, high in spread]
            lines.append((result.family, words, *cells, f"{result.all_labels:.0%}"))
    told.append(columns(("family", "signature", *counts, "all labels"), lines))
    told.append(f"\nDefault family, RAJAPerf.\nSplit: {adapted.SPLIT}.")
    lines = []
    for made in curves:
        start = f"{made.platform} from the prior of {made.prior_of}"
        spread = zip(made.error, made.low, made.high, strict=True)
        rows_of = {
            "median error": [f"{m:.0%} ({low:.0%} to {high:.0%})" for m, low, high in spread],
            "mean log error": [f"{m:.3f}" for m in made.mean_log_error],
            "90 % coverage": [f"{c:.0%}" for c in made.coverage],
            "upper / middle": [f"{f:.1f}" for f in made.factor],
        }
        lines += [(start, words, *cells) for words, cells in rows_of.items()]
    told.append(columns(("new platform", "figure", *counts), lines))
    told += [f"left out: {group} ({why})" for group, why in found.left_out.items()]
    document = {**found.as_dict(), "default_family": [curve.as_dict() for curve in curves]}
    show(options, document, "\n".join(told), file="few-shot.json")
