"""``berth predict``: ranks platforms for one workload of any kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from berth.pilot.profile import Profile
from berth.plugin.cli.options import NODES, PATH, POSITIVE, bundles_option
from berth.plugin.cli.predict.asked import PredictRequest
from berth.plugin.cli.workload.options import workload_options
from berth.plugin.forecasting import bundles_for, forecaster_for, reference_of, with_slices
from berth.plugin.installed_site import Installation
from berth.plugin.workloads.files import WorkloadOptions, read_file
from berth.predictor.core.workload import Workload
from berth.predictor.hardware import platforms as catalogue
from berth.predictor.hardware.by_sheet import place_named

RELATIVE = "berth.relative-bundle/1"
"""Equal to ``families.relative.SCHEMA``; repeated here to avoid a slow import."""


@click.command(epilog="Example: berth predict triad.json --platform quartz --platform lassen-v100")
@click.argument("file", type=PATH)
@click.argument("others", nargs=-1, type=PATH)
@click.option(
    "--platform",
    "names",
    multiple=True,
    help="Rank only these platforms, slices or accelerators (default: all known platforms).",
)
@click.option(
    "--size", type=float,
    help="Programs: predict at this problem size; with --cores, at data that fill a node.",
)  # fmt: skip
@click.option("--cores", type=POSITIVE, help="Programs: use so many cores of CPU platforms.")
@click.option(
    "--nodes",
    type=NODES,
    default=(),
    help="Programs: predict on each of these numbers of nodes, as 1,2,4.",
)
@click.option(
    "--site",
    "site_file",
    type=PATH,
    envvar="BERTH_SITE",
    help="Site file, for its platforms and bundles.",
)
@bundles_option
@click.option("--store", help="Programs: use its profiles of the same program too.")
@click.option(
    "--explain", "why", is_flag=True, help="Show sources, their weights and what limits each."
)
@click.option(
    "--roofline", is_flag=True, help="Model graphs: show where the time goes and what would help."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@workload_options
def predict(
    *,
    file: Path,
    described: WorkloadOptions,
    site_file: Path | None,
    bundles: tuple[Path, ...],
    store: str | None,
    others: tuple[Path, ...],
    names: tuple[str, ...],
    **options: Any,
) -> None:
    """Rank platforms for the workload of FILE by predicted time, as `berth place` does.

    FILE is a Profile, an ONNX file, the config.json of a Hugging Face model (a decoder is a served
    language model), TOML of MIG slices, or a document of a berth.*-workload/1 schema.
    OTHERS are profiles of the same program and size on other platforms, whose times are then
    known; or on the same platform with other numbers of nodes. With --bundle of relative
    performance its own platforms are ranked.
    """
    site = None
    if site_file is not None:
        from berth.plugin.site import load_site

        site = load_site(site_file)
    workload = read_file(file, described)
    if others:
        from berth.plugin.workloads.filing import with_nodes  # slow: imports SQLAlchemy

        workload, others = with_nodes(workload, others)
    forecaster = forecaster_for(site, bundles)
    named = bundles_for(forecaster, workload, bundles, site)
    platforms = {**catalogue.load(), **(site.platforms if site else {})}
    relative = workload.kind == "program" and RELATIVE in named
    if not relative:  # a bundle of relative performance has platforms of its own
        chosen = [place_named(name, platforms) for name in names]
        platforms |= {platform.name: platform for platform in chosen}
        names = tuple(platform.name for platform in chosen)
    asked = PredictRequest(
        path=file,
        workload=workload,
        forecaster=forecaster,
        platforms=with_slices(platforms) if workload.kind == "slices" else platforms,
        reference=reference_of(site),
        names=tuple(dict.fromkeys(names)),
        bundles=named,
        sizes=described.sizes,
        others=others,
        stored=_stored(store),
        currency="" if site is None else site.currency,
        carbon_g_per_kwh=None if site is None else site.carbon_g_per_kwh,
        **options,
    )
    _view(workload, relative=relative)(asked)


def _view(workload: Workload, *, relative: bool) -> Callable[[PredictRequest], None]:
    """Return the function that predicts and prints a workload of this kind; its module is
    imported only now."""
    # ruff: noqa: PLC0415
    match workload.kind:
        case "program" if relative:
            from berth.plugin.cli.predict.program import predict_relative

            return predict_relative
        case "program":
            from berth.plugin.cli.predict.program import predict_program

            return predict_program
        case "model-graph":
            if getattr(workload.document, "mode", "") == "training":
                from berth.plugin.cli.predict.model import predict_training

                return predict_training
            from berth.plugin.cli.predict.model import predict_model

            return predict_model
        case "language-model":
            from berth.plugin.cli.predict.language_model import predict_llm

            return predict_llm
        case _:
            return predict_any


def predict_any(asked: PredictRequest) -> None:
    """Print platforms ranked by predicted time, for kinds of workload without a function of
    their own."""
    from berth.plugin.report.of_forecast import (
        best_points,
        explained_data,
        forecast_report,
    )

    asked.check()
    workload, platforms = asked.workload, asked.chosen()
    forecast = asked.forecast(platforms)
    points = best_points(forecast)
    names = [point.platform for point in points] if asked.why else []
    each = asked.forecaster.explain_each(
        workload, [platforms[name] for name in names], asked.platforms, reference=asked.reference
    )
    explanations = dict(zip(names, each, strict=True))
    asked.show(
        lambda: forecast_report(workload, forecast, explanations),
        lambda: explained_data(forecast, explanations),
    )


def _stored(store: str | None) -> tuple[Profile, ...]:
    if store is None:
        return ()
    from berth.plugin.workloads.filing import stored_profiles  # slow: imports SQLAlchemy

    return tuple(stored_profiles(Installation(store_url=store).reading()))
