"""``berth mig recommend``: recommends a slice for a workload, with predictions for each slice."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from berth.pilot.documents import write_json
from berth.pilot.errors import UsageError
from berth.plugin.cli.options import (
    FILE,
    POSITIVE,
    answer,
    json_option,
    store_options,
)
from berth.plugin.cli.workload.options import usual_workload_options
from berth.plugin.installed_site import Installation
from berth.plugin.mig.recommending import predictions_for, workload_named
from berth.plugin.report.of_slices import recommendation_data, recommendation_part
from berth.plugin.workloads.files import WorkloadOptions
from berth.policies.mig.demands import Demand
from berth.policies.mig.documents import JobEntry, JobsDocument, SliceEntry, read_fleet
from berth.policies.mig.layout import GpuState
from berth.policies.mig.recommend import Aim, SliceTerms, demand_on, makeable
from berth.policies.mig.recommend import recommend as choose
from berth.predictor.core.workload import Workload
from berth.predictor.families.slices.workload import SliceWorkload
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
    help="What the best slice is best in.",
)
@click.option("--latency-limit-ms", type=float, help="Time that a batch may take at most, in ms.")
@click.option("--price-per-hour", type=float, help="Price of the whole GPU, for the aim cost.")
@click.option(
    "--fleet",
    "fleet_files",
    multiple=True,
    type=FILE,
    help="Only slices that this fleet has (berth.mig-fleet/1); may be repeated.",
)
@click.option("--recut", is_flag=True, help="With --fleet: or slices that it can be cut to.")
@click.option(
    "--jobs",
    "jobs_file",
    type=FILE,
    help="Write the slices it may have here, for berth mig plan (berth.mig-jobs/1).",
)
@click.option("--count", type=POSITIVE, default=1, help="With --jobs: so many equal jobs.")
@usual_workload_options
@store_options
@json_option
def recommend(
    *,
    name: str,
    described: WorkloadOptions,
    gpu: str | None,
    aim: str,
    latency_limit_ms: float | None,
    price_per_hour: float | None,
    fleet_files: tuple[Path, ...],
    recut: bool,
    jobs_file: Path | None,
    count: int,
    installation: Installation,
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
    if recut and not fleet_files:
        raise UsageError("--recut needs --fleet")
    if jobs_file is None and count != 1:
        raise UsageError("--count needs --jobs")
    workload = workload_named(name, installation.reading, described)
    states = read_fleet(fleet_files)[1] if fleet_files else ()
    geometry = lookup(gpu or _gpu_of(workload, states))
    same_model = [state for state in states if state.geometry.gpu == geometry.gpu]
    if states and not same_model:
        raise UsageError(f"the fleet has no {geometry.gpu}", hint=f"it has {_models(states)}")
    possible = makeable(same_model, recut=recut) if fleet_files else None
    terms = SliceTerms(
        Aim(aim),
        None if latency_limit_ms is None else latency_limit_ms / 1000,
        price_per_hour,
    )
    predictions = predictions_for(installation.site())
    recommendation = choose(
        predictions.on_slices(workload, geometry, gpu or ""), geometry, terms, possible=possible
    )
    if jobs_file is not None:
        write_json(jobs_file, _jobs(demand_on([recommendation], count=count)))
    answer(
        lambda: recommendation_part(recommendation),
        lambda: recommendation_data(recommendation),
        json_=json_,
    )


def _gpu_of(workload: Workload, states: Iterable[GpuState]) -> str:
    if isinstance(workload.document, SliceWorkload):
        return workload.document.gpu
    models = _models(states)
    if not models or " or " in models:
        raise UsageError(
            f"which GPU model to slice for {workload.name} is not known",
            hint=f"give --gpu {models or 'A100-40GB'}; berth mig show lists models",
        )
    return models


def _models(states: Iterable[GpuState]) -> str:
    return " or ".join(sorted({state.geometry.gpu for state in states}))


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
