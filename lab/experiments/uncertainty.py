"""Intervals, abstention and probe advice."""

from __future__ import annotations

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.options import Options
from lab.experiments.shown import show


def evaluate(options: Options) -> None:
    """Intervals, abstention and probe advice of every family on the AIWC data set.

    With ``report`` the folds that are done are kept in it: a run cut short goes on from there.
    """
    from berth.predictor.learning.relative.evaluation import loaded  # noqa: PLC0415
    from berth.predictor.learning.resume import Resume  # noqa: PLC0415
    from lab.datasets.aiwc import AIWC  # noqa: PLC0415 - needs the extra
    from lab.relative import families, trust_run  # noqa: PLC0415
    from lab.relative.data import aiwc_rows  # noqa: PLC0415
    from lab.relative.trust_report import (  # noqa: PLC0415
        tables,
        write_trust_report,
    )

    entries, rows = families.chosen(options.only), aiwc_rows()
    total = trust_run.steps(rows, len(loaded(entries)[0]))
    with step_bar("evaluating", total) as advance:
        found = trust_run.evaluate_trust(
            rows,
            entries,
            data=f"{AIWC.title} ({AIWC.licence})",
            seed=options.seed,
            resume=Resume(options.unfinished),
            advance=advance,
        )
    if options.report is not None:
        write_trust_report(found, options.report)
    told = [
        f"{found.data}: {found.rows} rows of {found.applications} applications.",
        f"Split: {found.split}.",
    ]
    for title, header, lines in tables(found):
        told += [f"\n{title}", columns(header, lines)]
    told += [f"left out: {group} ({why})" for group, why in found.left_out.items()]
    show(options, found.as_dict(), "\n".join(told), file=None)
