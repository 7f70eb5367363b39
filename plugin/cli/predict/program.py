"""``berth predict PROFILE``: a program's ranking over platforms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.plausible import is_contention
from berth.pilot.profile import Profile
from berth.pilot.units import format_seconds
from berth.plugin.cli.output.forecast_text import (
    explain_sources,
    memory_cells,
    prediction_json,
    ranked,
    usable,
)
from berth.plugin.cli.output.reasons import reason_document
from berth.plugin.cli.predict.asked import Asked
from berth.plugin.cli.predict.elsewhere import (
    Elsewhere,
    advice_for,
    as_document,
    in_words,
    read_elsewhere,
)
from berth.plugin.report.terminal import columns
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Prediction
from berth.predictor.families.program.bundle import BUNDLE_SCHEMA
from berth.predictor.families.program.node_runs import one_node
from berth.predictor.families.program.predictor import (
    Predictor,
    at_size,
    size_doubt,
    usable_cores,
)
from berth.predictor.hardware.ceilings import Point

if TYPE_CHECKING:
    from berth.predictor.families.program.explain import Explanation
    from berth.predictor.families.relative.joint import Advice


def predict_program(asked: Asked) -> None:
    """Rank platforms for a program by predicted time."""
    asked.check("a second file", "--size", "--cores", "--nodes", "--known", "--probe", "--picture")
    measured, platforms = asked.workload.document, asked.platforms
    assert isinstance(measured, Profile)  # noqa: S101 - by its kind
    chosen = asked.chosen()
    runs = read_elsewhere(measured, asked.known, asked.others, platforms, asked.stored)
    runs = {name: run for name, run in runs.items() if name in chosen}
    forecast = asked.forecast(chosen)
    on_a_node = one_node(measured)
    units = {
        name: _units(on_a_node, chosen[name], asked.cores, runs.get(name))
        for name in forecast.curves
    }
    counts = asked.nodes or (forecast.main_nodes,)
    if runs and counts != (1,):
        raise UsageError("--nodes and profiles of other platforms are not for one question")
    found = [
        p
        for nodes in counts
        for name, count in units.items()
        if (p := forecast.at(name, count * nodes, nodes)) is not None
    ]
    if runs:
        from berth.predictor.families.relative.joint import updated  # noqa: PLC0415 - when asked

        found = updated(found, {name: run.runtime_s for name, run in runs.items()})
    advice = advice_for(found) if asked.probe else None
    ranking = ranked([at_size(p, measured, _size(forecast, asked.size, p)) for p in found])
    ranking.sort(key=lambda p: not (usable(p) and _runs_on(measured, platforms[p.platform])))
    order = {p.platform: index for index, p in reversed(list(enumerate(ranking)))}
    reasons: list[Explanation] = []
    shown: list[str] = []
    if asked.why or asked.picture is not None:
        from berth.predictor.families.program.explain import explain  # noqa: PLC0415 - when asked

        predictor = Predictor.load(asked.bundles.get(BUNDLE_SCHEMA))
        shown = list(dict.fromkeys(p.platform for p in _shown(ranking, measured, asked)))
        points = [Point(chosen[name], units[name]) for name in shown]
        reference = platforms.get(measured.platform)
        reasons = explain(predictor, on_a_node, points, reference=reference)
        reasons.sort(key=lambda e: order[e.platform])
    if asked.as_json:
        document = _document(measured, forecast, ranking, asked.size)
        if reasons:
            document["explanations"] = [reason_document(e) for e in reasons]
        if advice is not None:
            document["probe"] = as_document(advice)
        click.echo(json.dumps(document, indent=2))
    else:
        _show(measured, forecast.bundle, ranking, asked)
        _advise(advice, ranking)
        if asked.why:
            explain_sources(forecast, shown)
        for reason in reasons if asked.why else ():
            click.echo(f"\n{reason.sentence()}")
    if asked.picture is not None:
        from berth.plugin.pictures import explained  # noqa: PLC0415 - when asked

        explained.draw(asked.picture, measured.name, reasons)
        click.echo(f"picture written to {asked.picture}", err=True)


def _size(forecast: Forecast, size: float | None, point: Prediction) -> float | None:
    """The measured run's size that ``size`` stands for, where the problem grew with the nodes."""
    return size if forecast.nodes is None else forecast.nodes.size(size, point.nodes)


def _runs_on(profile: Profile, platform: Platform) -> bool:
    """Whether the program has code for it: not a GPU for a program that only runs on CPUs."""
    return not platform.is_gpu or any(t in platform.targets for t in profile.runs_on.targets)


def _shown(ranking: list[Prediction], profile: Profile, asked: Asked) -> list[Prediction]:
    """The rows for people: without GPUs that the program has no code for, unless named."""
    return [
        p
        for p in ranking
        if p.platform in asked.names or _runs_on(profile, asked.platforms[p.platform])
    ]


def _advise(advice: Advice | None, ranking: list[Prediction]) -> None:
    if advice is not None:
        click.echo(f"\n{in_words(advice)}")
    elif any(p.abstained for p in ranking):
        click.echo("`--probe` says which run elsewhere would help most.")


def _units(
    profile: Profile, platform: Platform, cores: int | None, run: Elsewhere | None = None
) -> int:
    if platform.is_gpu:
        return 1
    if run is not None:
        if cores not in (None, run.units):
            raise UsageError(
                f"the program ran on {platform.name} with {run.units} cores, not {cores}",
                hint="leave --cores out",
            )
        return min(run.units, platform.cores)
    return usable_cores(profile, platform) if cores is None else min(cores, platform.cores)


def _document(
    profile: Profile, forecast: Forecast, ranking: list[Prediction], size: float | None
) -> dict[str, Any]:
    return {
        "workload": profile.name,
        "reference": profile.platform,
        "bundle": forecast.bundle,
        "unit": forecast.unit.value,
        "families": list(forecast.families),
        "size": size or profile.workload.size,
        "predictions": [prediction_json(forecast, p) for p in ranking],
    }


def _show(
    profile: Profile,
    bundle: str,
    every: list[Prediction],
    asked: Asked,
) -> None:
    size, platforms = asked.size, asked.platforms
    ranking = _shown(every, profile, asked)
    no_code = {p.platform for p in ranking if not _runs_on(profile, platforms[p.platform])}
    header = (
        "platform", "with", "speedup", "90 % interval", "time", "90 % interval",
        "host memory <=", "GPU memory <=", "bound", "basis",
    )  # fmt: skip
    rows = []
    for p in ranking:
        unit = f"{p.cores} core{'s' * (p.cores > 1)}" if not p.gpus else f"{p.gpus} GPU"
        unit = f"{p.nodes} nodes, {unit}" if p.nodes > 1 else unit
        rows.append((
            p.platform,
            unit,
            f"{p.speedup.mid:.3g}x",
            f"{p.speedup.low:.3g} to {p.speedup.high:.3g}",
            format_seconds(p.runtime_s.mid),
            f"{format_seconds(p.runtime_s.low)} to {format_seconds(p.runtime_s.high)}",
            *memory_cells(p.memory),
            p.bound.value,
            p.basis.value
            + (" (abstains)" if p.abstained else "")
            + (" (no GPU code)" if p.platform in no_code else ""),
        ))  # fmt: skip
    at = f" at size {size:g}" if size is not None else ""
    click.echo(f"{profile.name}{at}, measured on {profile.platform}; bundle {bundle}\n")
    acted_on = sum(usable(p) and p.platform not in no_code for p in ranking)
    if ranking and not acted_on:
        click.echo("Nothing here is known well enough to act on; below the table is why.\n")
    click.echo(
        columns(
            header,
            rows,
            indent=0,
            first=acted_on or None,
        )
    )
    click.echo()
    if left_out := len(every) - len(ranking):
        click.echo(
            f"Left out: {left_out} GPU platforms that the program has no code for; name one with "
            "--platform to see the time of an equivalent GPU build."
        )
    for reason in dict.fromkeys(p.abstained for p in ranking if p.abstained):
        click.echo(f"abstains: {reason}")
    for text in filter(is_contention, profile.warnings):
        click.echo(f"pilot: {text}")
    if (doubt := size_doubt(profile, size)) is not None:
        click.echo(f"size: {doubt}")
    if no_code:
        click.echo(
            "no GPU code: the program does not run there; the time is of an equivalent GPU build."
        )
    elif any(p.gpus and Basis.MEASURED is not p.basis for p in ranking):
        click.echo("GPU rows are of an equivalent GPU build of the program.")
    if any(p.basis is Basis.PRIOR for p in ranking):
        click.echo("prior: roofline only, no measured times of that platform in the bundle.")
