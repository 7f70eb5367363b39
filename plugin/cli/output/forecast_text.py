"""A forecast as people and programs read it: ranked, and the uncertain rows apart."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import click

from berth.pilot.platform import Platform
from berth.pilot.units import counted, format_bytes, format_seconds
from berth.plugin.cli.output.intervals import as_numbers
from berth.plugin.report.terminal import columns
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval, MemoryUse, Prediction

MEMORY_HEADER = ("HOST MEMORY <=", "GPU MEMORY <=")
"""Titles of the upper ends of both memories."""
HEADER = ("PLATFORM", "WITH", "TIME", "90 % INTERVAL", "SPEEDUP", *MEMORY_HEADER,
          "BASIS", "FROM")  # fmt: skip


def usable(one: Prediction) -> bool:
    """Whether one can act on it: neither a prior nor an abstention."""
    return one.abstained is None and one.basis is not Basis.PRIOR


def without_code(
    targets: Iterable[str], architecture: str, platforms: Mapping[str, Platform]
) -> frozenset[str]:
    """The platforms that a program built for these targets and this machine cannot run on."""
    built_for = set(targets)
    return frozenset(
        name
        for name, platform in platforms.items()
        if built_for.isdisjoint(platform.targets) or platform.architecture != architecture
    )


def ranked(rows: Sequence[Prediction], no_code: Container[str] = ()) -> list[Prediction]:
    """Those that one can act on, fastest first; then the others, fastest first; last the platforms
    for which the program has no code."""
    return sorted(
        rows,
        key=lambda p: (p.platform in no_code, not usable(p), p.runtime_s.mid, p.platform),
    )


def best_points(forecast: Forecast, no_code: Container[str] = ()) -> list[Prediction]:
    """Each platform at its fastest number of cores or GPUs, ranked."""
    return ranked(
        [
            min(curve.points, key=lambda p: (p.runtime_s.mid, p.cores + p.gpus))
            for curve in forecast.curves.values()
        ],
        no_code,
    )


def per(forecast: Forecast) -> str:
    """What its times are of: ``per job``, ``per step`` ..."""
    return f"per {forecast.unit.value}"


def table(
    forecast: Forecast,
    rows: Sequence[Prediction],
    no_code: Container[str] = (),
    *,
    indent: int = 2,
) -> str:
    """Ranked rows, with a line of words before those that one cannot act on."""
    ordered = ranked(rows, no_code)
    found = [cells(forecast, one, no_code) for one in ordered]
    first = sum(usable(one) and one.platform not in no_code for one in ordered)
    return columns(HEADER, found, indent=indent, first=first)


def doubts(rows: Sequence[Prediction]) -> list[str]:
    """Why rows abstain, each reason once."""
    reasons = dict.fromkeys(one.abstained for one in rows if one.abstained)
    return [f"abstains: {reason}" for reason in reasons]


def sources_text(forecast: Forecast, platform: str) -> list[str]:
    """One line for each source of a prediction, most weight first."""
    return [
        f"{share.weight:4.0%}  {share.source}"
        + (f" ({share.situation})" if share.situation else "")
        for share in forecast.sources.get(platform, ())
    ]


def explain_sources(forecast: Forecast, platforms: Sequence[str]) -> None:
    """Print what each platform's time is combined from."""
    click.echo("\nSources of each time, with their weights")
    for name in platforms:
        for line in sources_text(forecast, name):
            click.echo(f"  {name}: {line.strip()}")


def sources_json(forecast: Forecast, platform: str) -> list[dict[str, Any]]:
    """The sources of one prediction with their weights."""
    return [
        {
            "source": share.source,
            "weight": share.weight,
            "log_width": share.log_width,
            "situation": share.situation,
        }
        for share in forecast.sources.get(platform, ())
    ]


def memory_json(memory: MemoryUse | None) -> dict[str, dict[str, float] | None]:
    """Keys of both memories; null: not known."""
    known = memory or MemoryUse()
    return {
        "host_memory_bytes": as_numbers(known.host_bytes),
        "gpu_memory_bytes": as_numbers(known.gpu_bytes),
    }


def memory_cells(memory: MemoryUse | None) -> tuple[str, str]:
    """Upper ends of both memories, under ``MEMORY_HEADER``."""
    known = memory or MemoryUse()
    return _at_most(known.host_bytes), _at_most(known.gpu_bytes)


def _at_most(need: Interval | None) -> str:
    return "-" if need is None else format_bytes(need.high)


def prediction_json(forecast: Forecast, one: Prediction) -> dict[str, Any]:
    """One row, with its sources."""
    return {
        "platform": one.platform,
        "nodes": one.nodes,
        "cores": one.cores,
        "gpus": one.gpus,
        "basis": one.basis.value,
        "speedup": as_numbers(one.speedup),
        "runtime_s": as_numbers(one.runtime_s),
        **memory_json(one.memory),
        "energy_j": as_numbers(one.energy_j),
        "bound": one.bound.value,
        "abstained": one.abstained,
        "sources": sources_json(forecast, one.platform),
    }


def forecast_json(forecast: Forecast) -> Mapping[str, Any]:
    """What a forecast is, and its best point on each platform, ranked."""
    return {
        "workload": forecast.workload,
        "kind": forecast.kind,
        "unit": forecast.unit.value,
        "bundle": forecast.bundle,
        "families": list(forecast.families),
        "reference": forecast.reference_platform,
        "predictions": [prediction_json(forecast, one) for one in best_points(forecast)],
    }


def cells(forecast: Forecast, one: Prediction, no_code: Container[str] = ()) -> tuple[str, ...]:
    """Of one row, under ``HEADER``."""
    time = one.runtime_s
    return (
        one.platform,
        counted(one.gpus, "GPU") if one.gpus else counted(one.cores, "core"),
        format_seconds(time.mid),
        f"{format_seconds(time.low)} to {format_seconds(time.high)}",
        f"{one.speedup.mid:.3g}x",
        *memory_cells(one.memory),
        one.basis.value
        + (" (abstains)" if one.abstained else "")
        + (" (no code for it)" if one.platform in no_code else ""),
        forecast.source_of(one.platform) or "-",
    )
