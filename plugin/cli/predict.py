"""``berth predict``: a profile's ranking over platforms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from berth.pilot.documents import read_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.cli.elsewhere import (
    Elsewhere,
    advice_for,
    as_document,
    in_words,
    read_elsewhere,
)
from berth.plugin.cli.intervals import as_numbers
from berth.plugin.cli.predict_llm import llm_door
from berth.plugin.cli.predict_model import model_door
from berth.plugin.cli.predict_relative import Asked, is_relative, predict_relative
from berth.plugin.cli.reasons import reason_document
from berth.plugin.pictures import explained
from berth.predictor.core.memory_need import where_known
from berth.predictor.core.prediction import Basis, Prediction
from berth.predictor.families.program.ceilings import Point
from berth.predictor.families.program.explain import Explanation, explain
from berth.predictor.families.program.predictor import Predictor, at_size, usable_cores
from berth.predictor.families.relative.probes import Advice
from berth.predictor.families.relative.together import updated
from berth.predictor.hardware import platforms as catalogue


@click.command(
    epilog="Example: berth predict triad.json --platform quartz --platform lassen-v100",
)
@click.argument("profile", type=click.Path(path_type=Path))
@click.argument("others", nargs=-1, type=click.Path(path_type=Path))
@click.option("--platform", "names", multiple=True, help="Only these (default: all known).")
@click.option("--size", type=float, help="At this problem size instead of the profiled one.")
@click.option("--cores", type=click.IntRange(min=1), help="On so many cores of CPU platforms.")
@click.option(
    "--platforms", "folder", type=click.Path(path_type=Path), help="A site's own platform files."
)
@click.option("--bundle", type=click.Path(path_type=Path), help="Instead of the shipped bundle.")
@click.option(
    "--known",
    multiple=True,
    metavar="PLATFORM=PROFILE",
    help="A profile of the same program run on PLATFORM.",
)
@click.option("--store", envvar="BERTH_STORE", help="Use its profiles of the same program too.")
@click.option("--probe", is_flag=True, help="Say which one or two runs elsewhere would help most.")
@click.option("--explain", "why", is_flag=True, help="Say what moved each, and what limits it.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Draw the explanation (.svg, .png, .pdf; needs berth[train]).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@model_door
@llm_door
def predict(
    *,
    profile: Path,
    others: tuple[Path, ...],
    names: tuple[str, ...],
    size: float | None,
    cores: int | None,
    folder: Path | None,
    bundle: Path | None,
    known: tuple[str, ...],
    store: str | None,
    probe: bool,
    why: bool,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Rank platforms for the program of PROFILE by predicted time.

    PROFILE may be the config.json of a language model: then by tokens a second; or an ONNX
    file: then by the time of one run.
    OTHERS are profiles of the same program on other platforms, of the same problem size: those
    times are then known, and what is predicted for the rest learns from them.
    With --bundle of `berth train --task relative-performance` its own platforms are ranked.
    """
    if bundle is not None and is_relative(bundle):
        stray = next((flag for flag, on in (("size", size), ("cores", cores)) if on), None)
        if stray is not None:
            raise UsageError(f"--{stray} is not for bundles of relative performance")
        stored = _stored(store)
        asked = Asked(names, known, others, stored, probe, why, picture, as_json)
        predict_relative(profile, bundle, asked)
        return
    measured = read_json(profile, Profile)
    platforms = catalogue.load(folder)
    chosen = [catalogue.get(name, platforms) for name in dict.fromkeys(names)]
    chosen = chosen or list(platforms.values())
    runs = read_elsewhere(measured, known, others, platforms, _stored(store))
    runs = {name: run for name, run in runs.items() if any(p.name == name for p in chosen)}
    predictor = Predictor.load(bundle)
    reference = platforms.get(measured.platform)
    points = [Point(p, _units(measured, p, cores, runs.get(p.name))) for p in chosen]
    found = predictor.predict_points(measured, points, reference=reference)
    if runs:
        found = updated(found, {name: run.runtime_s for name, run in runs.items()})
    advice = advice_for(found) if probe else None
    ranking = sorted(
        (at_size(p, measured, size) for p in found), key=lambda p: (p.runtime_s.mid, p.platform)
    )
    order = {p.platform: index for index, p in enumerate(ranking)}
    reasons: list[Explanation] = []
    if why or picture is not None:
        reasons = explain(predictor, measured, points, reference=reference)
        reasons.sort(key=lambda e: order[e.platform])
    if as_json:
        document = _document(measured, predictor.bundle_id, ranking, size)
        if reasons:
            document["explanations"] = [reason_document(e) for e in reasons]
        if advice is not None:
            document["probe"] = as_document(advice)
        click.echo(json.dumps(document, indent=2))
    else:
        _show(measured, predictor.bundle_id, ranking, size, anchored=reference is not None)
        _advise(advice, ranking)
        for reason in reasons if why else ():
            click.echo(f"\n{reason.sentence()}")
    if picture is not None:
        explained.draw(picture, measured.name, reasons)
        click.echo(f"picture written to {picture}", err=True)


def _stored(store: str | None) -> list[Profile]:
    """The profiles of the store; which are of the same program is told apart later."""
    if store is None:
        return []
    from berth.plugin.store import Store  # noqa: PLC0415
    from berth.plugin.workloads import stored_profiles  # noqa: PLC0415 - SQLAlchemy takes its time

    return stored_profiles(Store.open(store))


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
    profile: Profile, bundle: str, ranking: list[Prediction], size: float | None
) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "reference": profile.platform,
        "bundle": bundle,
        "size": size or profile.workload.size,
        "predictions": [
            {
                "platform": p.platform,
                "cores": p.cores,
                "gpus": p.gpus,
                "basis": p.basis.value,
                "speedup": as_numbers(p.speedup),
                "runtime_s": as_numbers(p.runtime_s),
                "memory_bytes": as_numbers(where_known(p.memory_bytes)),
                "energy_j": as_numbers(p.energy_j),
                "bound": p.bound.value,
                "abstained": p.abstained,
            }
            for p in ranking
        ],
    }


def _show(
    profile: Profile,
    bundle: str,
    ranking: list[Prediction],
    size: float | None,
    *,
    anchored: bool,
) -> None:
    console = Console(highlight=False)
    wide = Console(highlight=False, width=max(console.width, 118)) if console.is_terminal else None
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in (
        ("platform", "left"), ("with", "left"), ("speedup", "right"), ("90 % interval", "left"),
        ("time", "right"), ("90 % interval", "left"), ("memory, at most", "right"),
        ("bound", "left"), ("basis", "left"),
    ):  # fmt: skip
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for p in ranking:
        unit = f"{p.cores} core{'s' * (p.cores > 1)}" if p.cores else f"{p.gpus} GPU"
        dim = "dim" if p.abstained else None
        memory = where_known(p.memory_bytes)
        table.add_row(
            p.platform,
            unit,
            f"{p.speedup.mid:.3g}x",
            f"{p.speedup.low:.3g} to {p.speedup.high:.3g}",
            format_seconds(p.runtime_s.mid),
            f"{format_seconds(p.runtime_s.low)} to {format_seconds(p.runtime_s.high)}",
            "-" if memory is None else format_bytes(memory.high),
            p.bound.value,
            p.basis.value + (" (abstains)" if p.abstained else ""),
            style=dim,
        )
    at = f" at size {size:g}" if size is not None else ""
    click.echo(f"{profile.name}{at}, measured on {profile.platform}; bundle {bundle}\n")
    (wide or Console(highlight=False, width=140)).print(table)
    click.echo()
    for reason in dict.fromkeys(p.abstained for p in ranking if p.abstained):
        click.echo(f"abstains: {reason}")
    if any(not p.cores and Basis.MEASURED is not p.basis for p in ranking):
        click.echo("GPU rows are of an equivalent GPU build of the program.")
    if any(p.basis is Basis.PRIOR for p in ranking):
        click.echo("prior: roofline only, no measured times of that platform in the bundle.")
    if not anchored:
        click.echo(
            f"{profile.platform} has no signature here, so nothing is anchored on the measured "
            "time: `berth pilot bench` there, then `berth platform add`."
        )
