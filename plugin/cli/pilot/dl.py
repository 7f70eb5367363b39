"""``berth pilot dl``: measures deep-learning models, or names the most informative ones."""

from __future__ import annotations

import glob
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from berth.pilot.dl.campaign import ModelPlan, name_of, points, read_runs, run_campaign
from berth.pilot.dl.document import (
    ComputeDevice,
    ComputePrecision,
    ModelFacts,
    Protocol,
    Setting,
    Task,
)
from berth.pilot.dl.meters import memory_bytes
from berth.pilot.documents import read_toml
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.options import check_name
from berth.plugin.cli.options import COUNTS, FILE, PATH, POSITIVE, Listed, platform_option
from berth.plugin.cli.pilot.common import progress
from berth.plugin.cli.train.training_input import require_training
from berth.plugin.cli.workload.options import read_sizes
from berth.plugin.report.of_profile import runs_part
from berth.plugin.report.terminal import part_text
from berth.predictor.graphs.reader import read_graph
from berth.predictor.graphs.values import TYPE_NAMES
from berth.predictor.hardware import platforms as catalogue

MEMORY_SHARE = 0.9
"""Share of the free memory that a measurement may use."""


@click.command(epilog="Example: berth pilot dl resnet50.onnx --batch 1,8 --output runs.jsonl")
@click.argument("models", metavar="[MODEL]...", nargs=-1)
@click.option("--plan", type=PATH, help="TOML file instead of MODELs.")
@click.option(
    "--batch",
    "batches",
    type=COUNTS,
    default="1",
    help="Batch sizes to measure, as 1,8,32.",
)
@click.option(
    "--precision",
    "precisions",
    type=Listed("precisions", ComputePrecision),
    default="fp32",
    help="Precisions to measure: fp32, tf32, fp16, bf16, with commas.",
)
@click.option(
    "--task",
    "tasks",
    type=Listed("tasks", Task),
    default="inference",
    help="inference, training or both, separated by a comma.",
)
@click.option("--threads", type=COUNTS, default="1", help="Threads on a CPU, as 1,2,4.")
@click.option(
    "--device",
    type=click.Choice([d.value for d in ComputeDevice]),
    default="cpu",
    help="Device to measure on.",
)
@click.option("--dim", "sizes", multiple=True, help="NAME=SIZE of another open dimension.")
@click.option(
    "--input-shape",
    type=COUNTS,
    help="Shape of one input of a Python factory, as 3,224,224.",
)
@click.option(
    "--sm-percentage",
    "shares",
    type=COUNTS,
    default=(),
    help="Hold the run to such shares of the GPU (CUDA MPS), as 14,28,100.",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=5,
    help="Runs before the measured ones.",
)
@click.option("--repeats", type=POSITIVE, default=30, help="Measured runs.")
@click.option(
    "--cool-down",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Seconds of rest before each part of a measurement.",
)
@click.option(
    "--energy-window",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Seconds of back-to-back runs to measure energy over; 0: none.",
)
@click.option("--time-limit", type=click.FloatRange(min=0), help="Seconds for all of them.")
@platform_option
@click.option(
    "--output",
    "-o",
    type=FILE,
    help="JSON lines to append to; what it holds is not measured again.",
)
@click.option(
    "--advise",
    type=POSITIVE,
    metavar="N",
    help="Measure nothing: name the N MODELs that would tell most about --platform.",
)
@click.option("--json", "json_", is_flag=True, help="Print the documents of all points.")
def dl(
    models: tuple[str, ...], *, plan: Path | None, sizes: tuple[str, ...], shares: tuple[int, ...],
    warmup: int, repeats: int, cool_down: float, energy_window: float,
    time_limit: float | None, platform: str, output: Path | None,
    advise: int | None, json_: bool, **settings: Any,
) -> None:  # fmt: skip
    """Measure each MODEL: latency, peak memory and energy, warm, repeated, in its own process.

    MODEL is an ONNX file (onnxruntime runs it; weights that it leaves out are made up), a glob of
    files, or a Python factory, package.module:function, that gives a PyTorch module. Interrupted, a
    campaign with --output goes on where it stopped. Running out of memory is a result.
    """
    check_name("--platform", platform)
    if advise is not None:
        _say_advice(models, platform, advise)
        return
    if plan is not None:
        if models:
            raise UsageError("--plan names the models: give no MODEL beside it")
        asked, folder = read_toml(plan, ModelPlan), plan.parent
    elif not models:
        raise UsageError("no MODEL was given", hint="for example: berth pilot dl resnet50.onnx")
    else:
        folder = Path()
        asked = ModelPlan(
            models=models, sm_percentages=_shares(shares), sizes=read_sizes(sizes), **settings
        )
    protocol = Protocol(
        warmup=warmup, repeats=repeats, cool_down_s=cool_down, energy_s=energy_window
    )
    memory = int(memory_bytes("MemAvailable") * MEMORY_SHARE)
    wanted = points(asked, folder, protocol, facts_of, memory_bytes=memory)
    with tempfile.TemporaryDirectory() as scratch:
        results = output or Path(scratch) / "runs.jsonl"
        with progress() as say:
            result = run_campaign(wanted, results, platform, time_limit_s=time_limit, say=say)
        keys = {point.key for point in wanted}
        runs = [run for run in read_runs(results) if run.key in keys]
    if json_:
        documents = [run.model_dump(mode="json", by_alias=True) for run in runs]
        click.echo(json.dumps(documents, indent=1))
        return
    click.echo(part_text(runs_part(runs)))
    if result.too_large:
        click.echo(f"{result.too_large} larger batches of what ran out of memory were left out")
    if result.unmade:
        click.echo(f"{result.unmade} were not begun within --time-limit")
    if output is not None:
        click.echo(f"{output}: {result.measured} measured now, {result.known} known before")


def _say_advice(models: tuple[str, ...], platform: str, count: int) -> None:
    files = [Path(name) for text in models for name in sorted(glob.glob(text)) or [text]]  # noqa: PTH207 - as a plan
    for path in advise_models(Path("default"), platform, files, count, folder=None):
        click.echo(path)


def facts_of(path: Path, digest: str, setting: Setting) -> ModelFacts:
    """Return the model's graph figures (parameters, operations, bytes); only name and digest
    where Berth cannot read the graph."""
    name = name_of(str(path))
    try:
        graph = read_graph(path, batch=setting.batch, sizes=setting.sizes)
    except DocumentError:
        return ModelFacts(name=name, sha256=digest)
    return ModelFacts(
        name=name, sha256=digest, graph=graph.digest, parameters=graph.parameters,
        macs=graph.total_macs, flops=graph.total_flops, moved_bytes=graph.total_moved_bytes,
        peak_activation_bytes=graph.peak_activation_bytes,
        inputs=tuple(
            f"{port.name}: {TYPE_NAMES.get(port.dtype, str(port.dtype))} {list(port.shape)}"
            for port in graph.inputs
        ),
    )  # fmt: skip


def _shares(percentages: tuple[int, ...]) -> tuple[int, ...]:
    if any(share > 100 for share in percentages):
        raise UsageError("--sm-percentage is between 1 and 100")
    return percentages


def advise_models(
    source: Path, name: str, files: Sequence[Path], count: int, *, folder: Path | None
) -> list[Path]:
    """Return the ``count`` ONNX files among ``files`` whose measurement on platform ``name``
    would improve predictions most, the most informative first."""
    require_training("advice")
    from berth.predictor.families.graph.latency.features import work_of  # noqa: PLC0415
    from berth.predictor.families.graph.transfer.bundle import DEFAULT_TRANSFER  # noqa: PLC0415
    from berth.predictor.graphs.reader import read_graph  # noqa: PLC0415
    from berth.predictor.graphs.roofline import native_numbers  # noqa: PLC0415
    from berth.predictor.hardware.roofs import roofs  # noqa: PLC0415
    from berth.predictor.learning.graphs.adapt import advised  # noqa: PLC0415

    if not files:
        raise UsageError("no model is given", hint="name the .onnx files that could be measured")
    known = catalogue.load(folder)
    roof = roofs(known)[catalogue.get(name, known).name]
    graphs = [read_graph(path, batch=1) for path in files]
    order = advised(
        DEFAULT_TRANSFER if source == Path("default") else source,
        [work_of(graph) for graph in graphs], (roof, native_numbers(graphs[0])), batch=1,
        count=count,
    )  # fmt: skip
    return [files[index] for index in order]
