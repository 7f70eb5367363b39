"""``berth predict PROFILE``: ranks platforms for a program, using its runs on other platforms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from berth.pilot.documents import read_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.plugin.cli.predict.asked import PredictRequest
from berth.plugin.report.of_forecast import ranked, rows_of, usable
from berth.plugin.report.of_program import (
    ProgramRanking,
    RelativeRanking,
    program_data,
    program_report,
    relative_data,
    relative_report,
    relative_usable,
)
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Interval, Prediction
from berth.predictor.families.program.bundle import BUNDLE_SCHEMA
from berth.predictor.families.program.doubts import notes_of_home
from berth.predictor.families.program.estimate import LEAST_LOG_WIDTH
from berth.predictor.families.program.node_runs import one_node
from berth.predictor.families.program.predictor import Predictor, usable_cores
from berth.predictor.families.program.problem_size import at_size, size_doubt
from berth.predictor.families.program.work import missing_counters
from berth.predictor.hardware.by_sheet import pilots_platform
from berth.predictor.hardware.ceilings import Allocation

if TYPE_CHECKING:
    from berth.predictor.families.program.explain import Bottleneck
    from berth.predictor.families.relative.predictor import RelativePrediction


def predict_program(asked: PredictRequest) -> None:
    """Print platforms ranked for a program by predicted time."""
    asked.check("a second file", "--size", "--cores", "--nodes")
    measured = asked.workload.document
    assert isinstance(measured, Profile)  # noqa: S101 - by its kind
    chosen = asked.chosen()
    runs = read_elsewhere(measured, asked.others, asked.platforms, asked.stored)
    runs = {name: run for name, run in runs.items() if name in chosen}
    forecast = asked.forecast(chosen)
    on_a_node = one_node(measured)
    units = {
        name: _units(on_a_node, chosen[name], asked.cores, runs.get(name))
        for name in forecast.curves
    }
    predictions = _predictions(asked, forecast, units, runs)
    no_code = {
        name for name, platform in asked.platforms.items() if not _runs_on(measured, platform)
    }
    sized = [at_size(p, measured, _size(forecast, asked.size, p)) for p in predictions]
    points = [Allocation(asked.platforms[name], count) for name, count in units.items()]
    ranking = ProgramRanking(
        measured,
        forecast,
        rows_of(forecast, _ordered(sized, no_code), no_code),
        asked.names,
        asked.size,
        size_doubt(measured, asked.size),
        notes_of_home(measured, asked.platforms, points),
        with_sources=asked.why,
    )
    if asked.why:
        ranking = replace(ranking, reasons=_reasons(asked, ranking, units))
    asked.show(lambda: program_report(ranking), lambda: program_data(ranking))


def _predictions(
    asked: PredictRequest,
    forecast: Forecast,
    units: Mapping[str, int],
    runs: Mapping[str, OtherPlatformRun],
) -> list[Prediction]:
    """Return predictions on ``units`` cores or GPUs per node of each platform; the times of the
    program's ``runs`` there are known. Raises UsageError."""
    counts = asked.nodes or (forecast.main_nodes,)
    if runs and counts != (1,):
        raise UsageError("--nodes and profiles of other platforms are not for one question")
    return [
        _measured(p, runs[name].runtime_s) if name in runs else p
        for nodes in counts
        for name, count in units.items()
        if (p := forecast.at(name, count * nodes, nodes)) is not None
    ]


def _measured(prediction: Prediction, runtime: Interval) -> Prediction:
    """Return the prediction with the measured time; speedup and energy change with it, memory does
    not."""
    before_s, energy = prediction.runtime_s.mid, prediction.energy_j
    return replace(
        prediction,
        runtime_s=runtime,
        speedup=runtime.over(prediction.speedup.mid * before_s),
        energy_j=None if energy is None else runtime.scaled(energy.mid / before_s),
        basis=Basis.MEASURED,
        abstained=None,
    )


def _ordered(predictions: Sequence[Prediction], no_code: set[str]) -> list[Prediction]:
    return sorted(ranked(predictions), key=lambda p: not (usable(p) and p.platform not in no_code))


def _reasons(
    asked: PredictRequest, ranking: ProgramRanking, units: Mapping[str, int]
) -> list[Bottleneck]:
    """Return what limits the program on each platform shown, in the ranking's order."""
    # ruff: noqa: PLC0415 - when asked
    from berth.predictor.families.program.explain import bottlenecks

    profile = ranking.profile
    if missing_counters(profile):
        return []
    order = list(dict.fromkeys(row.prediction.platform for row in ranking.rows))
    shown = dict.fromkeys(row.prediction.platform for row in ranking.shown)
    points = [Allocation(asked.platforms[name], units[name]) for name in shown]
    predictor = Predictor.load(asked.bundles.get(BUNDLE_SCHEMA))
    home = pilots_platform(profile, asked.platforms)
    reasons = bottlenecks(predictor, one_node(profile), points, reference=home)
    return sorted(reasons, key=lambda reason: order.index(reason.platform))


def _size(forecast: Forecast, size: float | None, point: Prediction) -> float | None:
    """Return the problem size of the measured run that corresponds to ``size``, where the size
    grew with the number of nodes."""
    return size if forecast.nodes is None else forecast.nodes.size(size, point.nodes)


def _runs_on(profile: Profile, platform: Platform) -> bool:
    """Return whether the program has code for the platform: a program built only for CPUs has
    none for GPUs."""
    return not platform.is_gpu or any(t in platform.targets for t in profile.runs_on.targets)


def _units(
    profile: Profile, platform: Platform, cores: int | None, run: OtherPlatformRun | None = None
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


def predict_relative(asked: PredictRequest) -> None:
    """Print the platforms of a site's own cost model ranked for a program by predicted time.

    For platforms that Berth knows, the time is the forecast's, in which the cost model is one of
    the sources.
    """
    from berth.predictor.families.relative import SCHEMA
    from berth.predictor.families.relative.bundle import load
    from berth.predictor.families.relative.predictor import missing_counters as missing_of
    from berth.predictor.families.relative.predictor import predict_row
    from berth.predictor.families.relative.rows import row_of, values_of

    asked.check("a second file")
    measured, model = asked.workload.document, load(asked.bundles[SCHEMA])
    assert isinstance(measured, Profile)  # noqa: S101 - by its kind
    manifest = model.manifest
    runs = read_elsewhere(measured, asked.others, dict.fromkeys(manifest.platforms), asked.stored)
    times_s = {name: run.runtime_s.mid for name, run in runs.items()}
    row = row_of(measured, manifest.counters, manifest.platforms, times_s)
    beside = values_of(measured, manifest.constants or ())
    own = predict_row(model, row, list(asked.names), beside)
    known = [p.platform for p in own if p.platform in asked.platforms]
    forecast = asked.forecast(known) if known and not runs else None
    predictions = [
        p
        if forecast is None or p.platform not in asked.platforms
        else _of_forecast(forecast, p, measured, asked.platforms[p.platform])
        for p in own
    ]
    predictions.sort(key=lambda p: (not relative_usable(p), p.runtime_s.mid, p.platform))
    missing = missing_of(model, row, beside)
    ranking = RelativeRanking(
        measured, model, predictions, missing, forecast, with_sources=asked.why
    )
    asked.show(lambda: relative_report(ranking), lambda: relative_data(ranking))


def _of_forecast(
    forecast: Forecast, prediction: RelativePrediction, measured: Profile, platform: Platform
) -> RelativePrediction:
    """Return the prediction with the forecast's time and speedup; unchanged where the forecast
    lacks the platform."""
    units = 1 if platform.is_gpu else usable_cores(measured, platform)
    known = forecast.at(platform.name, units)
    if known is None:
        return prediction
    return replace(
        prediction, basis=known.basis, speedup=known.speedup, runtime_s=known.runtime_s,
        abstained=known.abstained,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OtherPlatformRun:
    """A run of the same program on another platform."""

    platform: str
    units: int
    """Number of cores (on a CPU) or GPUs that the run used."""
    runtime_s: Interval


def read_elsewhere(
    measured: Profile,
    others: Sequence[Path],
    platforms: Mapping[str, Platform | None],
    stored: Iterable[Profile] = (),
) -> dict[str, OtherPlatformRun]:
    """Return the program's runs on other platforms, by platform: from files, then from stored
    profiles.

    ``platforms``: known platforms by name; None: only the name is known. Raises UsageError for an
    unknown platform, the platform of ``measured`` itself, a platform given
    twice, a run that did not complete, or another problem size.
    """
    runs: dict[str, OtherPlatformRun] = {}
    for other in others:
        profile = read_json(other, Profile)
        _add(runs, measured, profile, profile.platform, platforms)
    for profile in stored:
        same = profile.workload == measured.workload and profile.platform != measured.platform
        usable = profile.runtime is not None and profile.complete and profile.exit_status == 0
        if same and usable and profile.platform in platforms and profile.platform not in runs:
            _add(runs, measured, profile, profile.platform, platforms)
    return runs


def _add(
    runs: dict[str, OtherPlatformRun],
    measured: Profile,
    profile: Profile,
    name: str,
    platforms: Mapping[str, Platform | None],
) -> None:
    if name not in platforms:
        raise UsageError(
            f"profile {profile.name!r} was measured on {name!r}, which is not a known platform",
            hint="`berth site platform list` shows them; `berth site platform add` adds one",
        )
    if name == measured.platform:
        raise UsageError(f"{measured.name!r} was itself measured on {name!r}")
    if name in runs:
        raise UsageError(f"two profiles are of {name!r}")
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(f"the run of {profile.name!r} on {name!r} did not complete")
    sizes = (profile.workload.size, measured.workload.size)
    if None not in sizes and sizes[0] != sizes[1]:
        raise UsageError(
            f"{profile.name!r} ran size {sizes[0]:g} on {name!r}, not {sizes[1]:g}",
            hint="a further pilot runs the same problem as the first pilot",
        )
    runtime = profile.runtime
    width = max(LEAST_LOG_WIDTH, math.log1p(2 * runtime.spread_s / runtime.median_s))
    runs_on, platform = profile.runs_on, platforms[name]
    on_gpu = runs_on.gpus > 0 if platform is None else platform.is_gpu
    units = max(1, runs_on.gpus) if on_gpu else runs_on.threads * runs_on.ranks
    runs[name] = OtherPlatformRun(name, units, around(runtime.median_s, width))
