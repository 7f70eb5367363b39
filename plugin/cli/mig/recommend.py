"""``berth mig recommend``: the slice for a workload, and what it would do on each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from berth.pilot.documents import read_json, write_json
from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes, format_count, format_seconds
from berth.plugin.cli.options import Rare, bundles_option, store_options, table_json_option
from berth.plugin.cli.workload.options import workload_options
from berth.plugin.installed_site import find_site, open_store
from berth.plugin.mig.recommending import predictions_for, workload_named
from berth.plugin.report.parts import plain
from berth.plugin.report.terminal import columns
from berth.plugin.workloads.files import WorkloadOptions
from berth.policies.mig.demands import Demand
from berth.policies.mig.documents import (
    FleetDocument,
    JobEntry,
    JobsDocument,
    SliceEntry,
    states_of,
)
from berth.policies.mig.layout import GpuState
from berth.policies.mig.recommend import Aim, Recommendation, SliceChoice, Terms, demand, makeable
from berth.policies.mig.recommend import recommend as choose
from berth.predictor.core.workload import Workload
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware.mig.geometry import Geometry
from berth.predictor.hardware.mig.slices import lookup


@click.command()
@click.argument("name", metavar="WORKLOAD")
@click.option(
    "--gpu",
    help="GPU model to slice. Default: the one it was measured on, or the only one of --fleet.",
)
@click.option(
    "--aim",
    type=click.Choice([a.value for a in Aim]),
    default="smallest",
    show_default=True,
    help="What the best slice is best in.",
)
@click.option("--latency-limit-ms", type=float, help="Time that a batch may take at most, in ms.")
@click.option(
    "--price-per-hour", cls=Rare, type=float, help="Price of the whole GPU, for the aim cost."
)
@click.option(
    "--fleet",
    "fleet_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Only slices that this fleet has (berth.mig-fleet/1).",
)
@click.option(
    "--recut", cls=Rare, is_flag=True, help="With --fleet: or slices that it can be cut to."
)
@click.option(
    "--jobs",
    "jobs_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the slices it may have here, for berth mig plan (berth.mig-jobs/1).",
)
@click.option(
    "--count",
    cls=Rare,
    type=click.IntRange(min=1),
    default=1,
    help="With --jobs: so many equal jobs.",
)
@bundles_option
@workload_options
@store_options
@table_json_option
def recommend(
    *,
    name: str,
    described: WorkloadOptions,
    gpu: str | None,
    aim: str,
    latency_limit_ms: float | None,
    price_per_hour: float | None,
    fleet_file: Path | None,
    recut: bool,
    jobs_file: Path | None,
    count: int,
    bundles: tuple[Path, ...],
    site_file: Path | None,
    store_url: str | None,
    json_: bool,
) -> None:
    """Name the smallest slice that WORKLOAD fits in, and the best one by an aim.

    WORKLOAD is a file of any kind (what was measured on a whole GPU, as JSON or TOML of
    berth.slice-workload/1; a Profile; an ONNX file; a config.json of a language model) or the name
    of a workload in the store.

    \b
    Example:
      berth mig recommend bert.json --aim throughput --latency-limit-ms 100
      berth mig recommend resnet50.onnx --batch 64 --mode training --gpu A100-40GB
    """
    if fleet_file is None and recut:
        raise UsageError("--recut needs --fleet")
    if jobs_file is None and count != 1:
        raise UsageError("--count needs --jobs")
    workload = workload_named(name, lambda: open_store(site_file, store_url), described)
    states = () if fleet_file is None else _fleet(fleet_file)
    geometry = lookup(gpu or _gpu_of(workload, states))
    possible = None if fleet_file is None else _possible(states, geometry, recut=recut)
    terms = Terms(
        Aim(aim),
        None if latency_limit_ms is None else latency_limit_ms / 1000,
        price_per_hour,
    )
    predictions = predictions_for(find_site(site_file), bundles)
    recommendation = choose(
        predictions.on_slices(workload, geometry), geometry, terms, possible=possible
    )
    if jobs_file is not None:
        write_json(jobs_file, _jobs(demand(recommendation, count=count)))
    click.echo(json.dumps(as_dict(recommendation), indent=2) if json_ else _text(recommendation))


def _fleet(path: Path) -> tuple[GpuState, ...]:
    return states_of(read_json(path, FleetDocument), source=path)


def _gpu_of(workload: Workload, states: Iterable[GpuState]) -> str:
    if isinstance(workload.document, SliceWorkload):
        return workload.document.gpu
    models = sorted({state.geometry.gpu for state in states})
    if len(models) != 1:
        raise UsageError(
            f"which GPU model to slice for {workload.name} is not known",
            hint=f"give --gpu {' or '.join(models) or 'A100-40GB'}; berth mig show lists models",
        )
    return models[0]


def _possible(states: Iterable[GpuState], geometry: Geometry, *, recut: bool) -> frozenset[str]:
    return makeable((s for s in states if s.geometry.gpu == geometry.gpu), recut=recut)


def _jobs(wanted: Demand) -> JobsDocument:
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


def as_dict(recommendation: Recommendation) -> dict[str, Any]:
    """Return the answer as plain data."""
    return {
        "workload": recommendation.workload,
        "gpu": recommendation.gpu,
        "unit": recommendation.unit,
        "units": recommendation.units,
        "aim": recommendation.terms.aim.value,
        "smallest": recommendation.smallest.profile.name if recommendation.smallest else None,
        "best": recommendation.best.profile.name if recommendation.best else None,
        "reason": recommendation.reason,
        "gpu_memory_bytes": plain(recommendation.memory.gpu_bytes),
        "baselines": {
            "thesis_memory": recommendation.baselines.by_memory,
            "thesis_utilisation": recommendation.baselines.by_utilisation,
        },
        "slices": [_slice(c) for c in recommendation.choices],
    }


def _slice(choice: SliceChoice) -> dict[str, Any]:
    prediction = choice.prediction
    return {
        "profile": choice.profile.name,
        "memory_bytes": choice.profile.memory_bytes,
        "part_of_gpu": choice.part,
        "need_bytes": plain(prediction.memory.gpu_bytes),
        "fits": choice.fits,
        "refused": choice.refused,
        "slowdown": plain(prediction.slowdown),
        "slowdown_95": plain(prediction.slowdown_95),
        "time_s": plain(prediction.time_s),
        "throughput_per_s": plain(choice.throughput_per_s),
        "energy_j": plain(prediction.energy_j),
        "price": plain(choice.price),
        "bound": prediction.bound.value,
        "launch_share": prediction.launch_share,
        "basis": prediction.basis.value,
        "method": prediction.method,
        "abstained": prediction.abstained,
    }


def _text(recommendation: Recommendation) -> str:
    gpu = recommendation.memory.gpu_bytes
    need = "not known" if gpu is None else f"up to {format_bytes(gpu.high)}"
    method = recommendation.choices[0].prediction.method
    lines = [
        f"{recommendation.workload} on slices of {recommendation.gpu}; GPU memory {need}; "
        f"predicted by {method}:"
    ]
    rows = [
        (
            c.profile.name,
            format_bytes(c.profile.memory_bytes),
            f"{c.prediction.slowdown.mid:.2f}",
            f"{c.prediction.slowdown.low:.2f}-{c.prediction.slowdown.high:.2f}",
            format_seconds(c.prediction.time_s.mid),
            format_count(c.throughput_per_s.mid),
            format_count(c.throughput_per_s.mid / c.part),
            "-" if c.prediction.energy_j is None else f"{c.prediction.energy_j.mid:.3g}",
            "-" if c.price is None else f"{c.price.mid:.3g}",
            c.prediction.bound.value,
            c.prediction.basis.value,
            c.refused or "ok",
        )
        for c in recommendation.choices
    ]
    header = (
        "slice", "memory", "slow-down", "90 %", f"a {recommendation.unit}", "items/s", "per GPU",
        "J", "price", "bound", "basis", "",
    )  # fmt: skip
    lines.append(columns(header, rows))
    possible = (c.prediction.abstained for c in recommendation.choices if c.refused is None)
    abstained = next((reason for reason in possible if reason), None)
    if abstained:
        lines.append(f"Not sure: {abstained}.")
    if recommendation.smallest is not None:
        lines.append(f"Smallest: {recommendation.smallest.profile.name}.")
    best = recommendation.best
    lines.append(f"Best: {best.profile.name if best else 'none'} ({recommendation.reason}).")
    baselines = recommendation.baselines
    if baselines.by_memory or baselines.by_utilisation:
        lines.append(
            f"The thesis's rules: by memory {baselines.by_memory or 'none'}, by utilisation "
            f"{baselines.by_utilisation or 'not known'}."
        )
    return "\n".join(lines)
