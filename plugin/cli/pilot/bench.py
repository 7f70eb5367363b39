"""``berth pilot bench``: benchmarks this machine and prints its measured rates."""

from __future__ import annotations

import os
from pathlib import Path

import click

from berth.pilot.bench import measure_signature, platform_here
from berth.pilot.collectors.nvml import NvmlCollector
from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.pilot.gpu.bench import measured_platform
from berth.pilot.gpu.device import opened
from berth.pilot.options import check_name
from berth.pilot.platform import Platform
from berth.pilot.suite import build_suite
from berth.plugin.cli.options import PATH
from berth.plugin.cli.pilot.common import check_output, keep, progress
from berth.plugin.cli.pilot.gpu import base_platform
from berth.plugin.report.of_platform import signature_report
from berth.plugin.report.terminal import report_text
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.catalogue import candidates, platform_named

BUSY_LOAD = 0.5
"""Load average per core above which the measured rates are unreliable."""


@click.command(epilog="Example: berth pilot bench --name our-cpu-node -o our-cpu-node.json")
@click.option("--name", envvar="BERTH_PLATFORM", show_envvar=True, default="local",
              help="Name of the platform that this machine is.")  # fmt: skip
@click.option("--output", "-o", type=PATH, help="Write the Platform here.")
@click.option("--json", "json_", is_flag=True, help="Print the Platform as JSON.")
@click.option("--full", is_flag=True, help="Minutes rather than ten seconds: every kernel, longer.")
@click.option("--gpu", type=click.IntRange(0, 1024), help="Benchmark this GPU instead, from 0.")
def bench(
    *,
    name: str,
    output: Path | None,
    json_: bool,
    full: bool,
    gpu: int | None,
) -> None:
    """Benchmark this machine: its Signature, as a platform file.

    The machine should do nothing else meanwhile. With --gpu 0, its first GPU; no compiler is
    needed for that.
    """
    check_name("--name", name)
    check_output(output)
    if gpu is not None:
        if full:
            raise UsageError("--full is of CPUs; a GPU is measured in seconds", hint="leave it out")
        _show(_of_gpu(name, gpu), output, [], json_=json_)
        return
    suite = build_suite()
    if suite.left_out:
        click.echo(f"warning: {suite.left_out}", err=True)
    busy = os.getloadavg()[0]
    if busy > BUSY_LOAD * (os.cpu_count() or 1):
        click.echo(f"warning: this machine is busy (load {busy:.1f}): rates may be low", err=True)
    with progress() as say:
        signature = measure_signature(
            suite,
            full=full,
            progress=lambda step, done, of: say(f"{done + 1} of {of}: {step}"),
        )
    platform = platform_here(name, signature)
    _show(platform, output, [] if json_ else gpus_here(NvmlCollector()), json_=json_)


def _of_gpu(name: str, number: int) -> Platform:
    with opened(number) as gpu, progress() as say:
        base = base_platform(gpu.name)
        return measured_platform(gpu, base.model_copy(update={"name": name}), say=say)


def _show(platform: Platform, output: Path | None, notes: list[str], *, json_: bool) -> None:
    if output is not None:
        keep(output, platform)
    if json_:
        click.echo(to_json(platform), nl=False)
        return
    written = [] if output is None else [f"written to {output}"]
    click.echo(report_text(signature_report(platform, [*notes, *written])))


def gpus_here(nvml: NvmlCollector) -> list[str]:
    """Return a line for each GPU model of this machine with the platform that it is."""
    if nvml.probe() is not None:
        return []
    shipped, lines = known.shipped(), []
    for name in dict.fromkeys(nvml.names()):
        try:
            meaning = f"platform {platform_named(name, shipped).name}"
        except UsageError:
            devices = ", ".join(device.name for device in candidates(name))
            meaning = f"no shipped platform; its data sheet: {devices or 'not known'}"
        lines.append(f"GPU {name}: {meaning}")
    return lines
