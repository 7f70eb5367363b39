"""Families of relative performance."""

from __future__ import annotations

from dataclasses import asdict, replace

from berth.pilot.errors import UsageError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.site_rows import site_input
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import command_line
from lab.experiments.options import Options
from lab.experiments.shown import show


def train(options: Options) -> str:
    """A bundle of the shipped family from a site's measurements, or from the AIWC data set."""
    if options.figures is not None:
        raise UsageError("relative computes its own figures; leave out --figures")
    site = site_input(options.profiles, options.reference, options.platforms)
    from berth.predictor.families.relative.bundle import TRUST  # noqa: PLC0415
    from berth.predictor.learning.relative.figures import vector_figures  # noqa: PLC0415
    from berth.predictor.learning.relative.law import LawFamily  # noqa: PLC0415
    from berth.predictor.learning.relative.train import steps  # noqa: PLC0415
    from berth.predictor.learning.relative.train import train as run  # noqa: PLC0415
    from lab.datasets.aiwc import AIWC, KINDS  # noqa: PLC0415 - needs the extra
    from lab.relative.data import aiwc_rows  # noqa: PLC0415

    rows = aiwc_rows() if site is None else site.rows
    sources = {AIWC.path: AIWC.sha256} if site is None else {site.title: rows.digest()}
    with step_bar("training", steps(rows)) as advance:
        manifest = run(
            rows,
            options.bundle,
            sources=sources,
            seed=options.seed,
            command=command_line(),
            figures_of=lambda held, guess: asdict(vector_figures(held, guess)),
            family=LawFamily(kinds=KINDS if site is None else site.kinds),
            constants=None if site is None else site.constants,
            advance=advance,
        )
    applications = len(manifest.training.applications)
    done = f"{manifest.id}: {manifest.training.rows} rows of {applications} applications"
    if TRUST in manifest.files:
        return done
    return (
        f"{done}\n{applications} applications are too few to know how far it can be trusted: "
        "predictions will have no intervals and abstain"
    )


def evaluate(options: Options) -> None:
    """Every family (or those of ``only``) by every split on a site's rows, or on AIWC's.

    With ``report`` the folds that are done are kept in it: a run cut short goes on from there.
    """
    site = site_input(options.profiles, options.reference, options.platforms)
    from berth.plugin.pictures.applications import (  # noqa: PLC0415
        draw_applications,
    )
    from berth.predictor.learning.relative import evaluation as run  # noqa: PLC0415
    from berth.predictor.learning.relative.law import LawFamily  # noqa: PLC0415
    from berth.predictor.learning.resume import Resume  # noqa: PLC0415
    from lab.datasets.aiwc import AIWC, KINDS  # noqa: PLC0415 - needs the extra
    from lab.datasets.aiwc import rows as published  # noqa: PLC0415
    from lab.relative import bars, families  # noqa: PLC0415
    from lab.relative.data import aiwc_rows  # noqa: PLC0415
    from lab.relative.report import (  # noqa: PLC0415
        HEADER,
        MEANING,
        RERUN,
        by_split,
        rerun_row,
        table,
        write_report,
    )
    from lab.relative.rerun import both_figures  # noqa: PLC0415

    seeds, report = options.every_seed, options.report
    entries = families.chosen(options.only)
    rows = aiwc_rows() if site is None else site.rows
    if site is not None:
        entries = families.for_kinds(entries, site.kinds)
    total = run.steps(rows, entries, seeds)
    with step_bar("evaluating", total) as advance:
        found = run.evaluate(
            rows,
            entries,
            data=f"{AIWC.title} ({AIWC.licence})" if site is None else site.title,
            seeds=seeds,
            resume=Resume(options.unfinished),
            advance=advance,
        )
    if site is None:
        measured = published()
        again = both_figures(rows, measured.spread_seconds, measured.runs)
        found = replace(found, rerun=again)
    if report is not None:
        write_report(found, report)
        if any(result.family == bars.SHIPPED for result in found.results):
            law = LawFamily(kinds=KINDS if site is None else site.kinds)
            draw_applications(rows, law, report, seeds[0])
    told = [f"{found.data}: {found.rows} rows of {found.applications} applications.", MEANING]
    for title, results in by_split(found):
        told += [f"\n{title}", columns(HEADER, table(results))]
    if found.rerun:
        told += [f"\n{RERUN}", columns(HEADER, rerun_row(found))]
    if verdicts := bars.verdicts_of(found):
        told += [f"\nbars, and what {bars.SHIPPED!r} does", columns(bars.HEADER, verdicts)]
    told += [f"left out: {group} ({why})" for group, why in found.left_out.items()]
    show(options, found.as_dict(), "\n".join(told), file=None)
