"""``berth mig recommend``: the slice for a workload, and what it would do on each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from berth.pilot.documents import read_json, read_toml, write_json
from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes, format_count, format_seconds
from berth.plugin.cli.columns import columns
from berth.plugin.cli.intervals import as_numbers
from berth.plugin.site.quantities import parse_duration_s
from berth.policies.mig.documents import (
    FleetDocument,
    JobEntry,
    JobsDocument,
    SliceEntry,
    states_of,
)
from berth.policies.mig.recommend import (
    Aim,
    Recommendation,
    SliceChoice,
    Terms,
)
from berth.policies.mig.recommend import (
    recommend as choose,
)
from berth.policies.mig.slice_demand import demand
from berth.policies.mig.slice_types import makeable
from berth.predictor.families.slices.bundle import DEFAULT_SLICES_BUNDLE, load
from berth.predictor.families.slices.predictor import SlicePredictor
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware.mig.catalogue import lookup


@click.command()
@click.argument("workload_file", metavar="WORKLOAD", type=click.Path(path_type=Path))
@click.option("--gpu", help="GPU model to slice (default: the one it was measured on).")
@click.option(
    "--aim", type=click.Choice([a.value for a in Aim]), default="smallest", show_default=True
)
@click.option("--latency-limit-ms", type=float, help="A batch must be done in it.")
@click.option("--price-per-hour", type=float, help="Of the whole GPU; for the aim cost.")
@click.option(
    "--fleet",
    "fleet_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Only slices that this fleet has (berth.mig-fleet/1).",
)
@click.option("--recut", is_flag=True, help="With --fleet: or that it can be cut to.")
@click.option(
    "--jobs",
    "jobs_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the slices it may have here, for berth mig plan (berth.mig-jobs/1).",
)
@click.option("--runtime", help="With --jobs: the job's time on the whole GPU, e.g. 2h.")
@click.option("--count", type=click.IntRange(min=1), default=1, help="With --jobs: equal jobs.")
@click.option(
    "--bundle",
    "folder",
    type=click.Path(path_type=Path),
    default=DEFAULT_SLICES_BUNDLE,
    help="Another slice predictor than the shipped one.",
)
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def recommend(
    *,
    workload_file: Path,
    gpu: str | None,
    aim: str,
    latency_limit_ms: float | None,
    price_per_hour: float | None,
    fleet_file: Path | None,
    recut: bool,
    jobs_file: Path | None,
    runtime: str | None,
    count: int,
    folder: Path,
    json_: bool,
) -> None:
    """Name the smallest slice that WORKLOAD fits in, and the best one by an aim.

    WORKLOAD says what was measured on the whole GPU (berth.slice-workload/1; JSON or TOML).

    Example: berth mig recommend bert.json --aim throughput --latency-limit-ms 100
    """
    if fleet_file is None and recut:
        raise UsageError("--recut needs --fleet")
    if jobs_file is None and (runtime is not None or count != 1):
        raise UsageError("--runtime and --count need --jobs")
    workload = _workload(workload_file)
    geometry = lookup(gpu or workload.gpu)
    possible = None if fleet_file is None else _possible(fleet_file, recut, geometry.gpu)
    terms = Terms(
        Aim(aim),
        None if latency_limit_ms is None else latency_limit_ms / 1000,
        price_per_hour,
    )
    made = choose(workload, geometry, SlicePredictor(load(folder)), terms, possible=possible)
    if jobs_file is not None:
        seconds = None if runtime is None else _seconds("--runtime", runtime)
        write_json(jobs_file, _jobs(made, seconds, count))
    click.echo(json.dumps(as_dict(made), indent=2) if json_ else _text(made))


def _workload(path: Path) -> SliceWorkload:
    return (
        read_toml(path, SliceWorkload) if path.suffix == ".toml" else read_json(path, SliceWorkload)
    )


def _possible(path: Path, recut: bool, gpu: str) -> frozenset[str]:
    states = states_of(read_json(path, FleetDocument), source=path)
    return frozenset(makeable((s for s in states if s.geometry.gpu == gpu), recut=recut))


def _seconds(option: str, text: str) -> float:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} {error}") from None


def _jobs(made: Recommendation, runtime_s: float | None, count: int) -> JobsDocument:
    wanted = demand(made, runtime_s=runtime_s, count=count)
    return JobsDocument(
        jobs=(
            JobEntry(
                name=wanted.name,
                count=wanted.count,
                slices=tuple(
                    SliceEntry(
                        profile=o.profile, gpu=o.gpu, throughput=o.throughput,
                        runtime_s=o.runtime_s, energy_j=o.energy_j,
                    )
                    for o in wanted.options
                ),
            ),
        )
    )  # fmt: skip


def as_dict(made: Recommendation) -> dict[str, Any]:
    """The answer as plain data."""
    return {
        "workload": made.workload,
        "gpu": made.gpu,
        "aim": made.terms.aim.value,
        "smallest": made.smallest.profile.name if made.smallest else None,
        "best": made.best.profile.name if made.best else None,
        "reason": made.reason,
        "memory_bytes": as_numbers(made.memory),
        "baselines": {
            "thesis_memory": made.baselines.by_memory,
            "thesis_utilisation": made.baselines.by_utilisation,
        },
        "slices": [_slice(c) for c in made.choices],
    }


def _slice(choice: SliceChoice) -> dict[str, Any]:
    made = choice.prediction
    return {
        "profile": choice.profile.name,
        "memory_bytes": choice.profile.memory_bytes,
        "part_of_gpu": choice.part,
        "fits": choice.fits,
        "refused": choice.refused,
        "slowdown": as_numbers(made.slowdown),
        "slowdown_95": as_numbers(made.slowdown_95),
        "step_s": as_numbers(made.step_s),
        "throughput_per_s": as_numbers(choice.throughput_per_s),
        "energy_j": as_numbers(choice.energy_j),
        "price": as_numbers(choice.price),
        "bound": made.bound.value,
        "launch_share": made.launch_share,
        "basis": made.basis.value,
        "method": made.method,
        "abstained": made.abstained,
    }


def _text(made: Recommendation) -> str:
    need = "not known" if made.memory is None else f"up to {format_bytes(made.memory.high)}"
    method = made.choices[0].prediction.method
    lines = [f"{made.workload} on slices of {made.gpu}; memory {need}; predicted by {method}:"]
    rows = [
        (
            c.profile.name,
            format_bytes(c.profile.memory_bytes),
            f"{c.prediction.slowdown.mid:.2f}",
            f"{c.prediction.slowdown.low:.2f}-{c.prediction.slowdown.high:.2f}",
            format_seconds(c.prediction.step_s.mid),
            format_count(c.throughput_per_s.mid),
            format_count(c.throughput_per_s.mid / c.part),
            "-" if c.energy_j is None else f"{c.energy_j.mid:.3g}",
            "-" if c.price is None else f"{c.price.mid:.3g}",
            c.prediction.bound.value,
            c.prediction.basis.value,
            c.refused or "ok",
        )
        for c in made.choices
    ]
    header = (
        "slice", "memory", "slow-down", "90 %", "a batch", "items/s", "per GPU", "J", "price",
        "bound", "basis", "",
    )  # fmt: skip
    lines.append(columns(header, rows))
    abstained = made.choices[0].prediction.abstained
    if abstained:
        lines.append(f"Not sure: {abstained}.")
    if made.smallest is not None:
        lines.append(f"Smallest: {made.smallest.profile.name}.")
    lines.append(f"Best: {made.best.profile.name if made.best else 'none'} ({made.reason}).")
    said = made.baselines
    if said.by_memory or said.by_utilisation:
        lines.append(
            f"The thesis's rules: by memory {said.by_memory or 'none'}, by utilisation "
            f"{said.by_utilisation or 'not known'}."
        )
    return "\n".join(lines)
