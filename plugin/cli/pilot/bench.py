"""``berth pilot bench``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from berth.pilot.bench import measure_signature, platform_here
from berth.pilot.collectors.nvml import NvmlCollector
from berth.pilot.documents import to_json, write_json
from berth.pilot.errors import UsageError
from berth.pilot.options import check_name
from berth.pilot.platform import Platform
from berth.pilot.suite import build_suite
from berth.pilot.units import format_bytes, format_count
from berth.plugin.cli.pilot.common import check_output, progress
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.catalogue import candidates, platform_named

BUSY_LOAD = 0.5
"""Load average a core from which the rates cannot be trusted."""


@click.command(epilog="Example: berth pilot bench --name our-cpu-node -o our-cpu-node.json")
@click.option(
    "--name",
    default=lambda: os.environ.get("BERTH_PLATFORM", "local"),
    help="Name of the platform that this is [default: $BERTH_PLATFORM, else local].",
)
@click.option("--description", default="", help="One line about it [default: the processor].")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write the Platform here.")
@click.option("--json", "as_json", is_flag=True, help="Print the Platform as JSON.")
@click.option("--full", is_flag=True, help="Minutes rather than ten seconds: every kernel, longer.")
def bench(name: str, description: str, output: Path | None, as_json: bool, full: bool) -> None:
    """Benchmark this machine: its Signature, as a platform file.

    The machine should do nothing else meanwhile.
    """
    check_name("--name", name)
    check_output(output)
    suite = build_suite()
    busy = os.getloadavg()[0]
    if busy > BUSY_LOAD * (os.cpu_count() or 1):
        click.echo(f"warning: this machine is busy (load {busy:.1f}): rates may be low", err=True)
    with progress() as say:
        signature = measure_signature(
            suite,
            full=full,
            progress=lambda step, done, of: say(f"{done + 1} of {of}: {step}"),
        )
    platform = platform_here(name, signature, description=description)
    if output is not None:
        write_json(output, platform)
    if as_json:
        click.echo(to_json(platform), nl=False)
        return
    for line in (*table(platform), *gpus_here(NvmlCollector())):
        click.echo(line)
    if output is not None:
        click.echo(f"written to {output}")


def gpus_here(nvml: NvmlCollector) -> list[str]:
    """List the machine's GPUs, which are not benchmarked, each with the platform that it is."""
    if nvml.probe() is not None:
        return []
    shipped, lines = known.shipped(), []
    for name in dict.fromkeys(nvml.names()):
        try:
            meaning = f"platform {platform_named(name, shipped).name}"
        except UsageError:
            devices = ", ".join(device.name for device in candidates(name))
            meaning = f"no shipped platform; its data sheet: {devices or 'not known'}"
        lines.append(f"  GPU {name}: {meaning}")
    return lines


def table(platform: Platform) -> list[str]:
    """Return the signature's rates, one a line, with units."""
    signature = platform.signature
    rates = (
        ("double precision, all cores", signature.flops_f64_per_s, "flop/s"),
        ("single precision, all cores", signature.flops_f32_per_s, "flop/s"),
        ("double precision, one core", signature.flops_f64_core_per_s, "flop/s"),
        ("integer operations, one core", signature.int_ops_core_per_s, "op/s"),
        ("dependent operations, one core", signature.scalar_chain_core_per_s, "op/s"),
        ("mispredicted branches, one core", signature.branch_misses_core_per_s, "/s"),
        ("gathered elements, one core", signature.gather_core_per_s, "/s"),
        ("reduction, all cores", signature.reduction_total_bytes_per_s, "B/s"),
        ("atomic updates, all cores", signature.atomics_per_s, "/s"),
    )
    lines = [f"{platform.name}: {platform.description}"]
    for title, value, unit in rates:
        shown = "not measured" if value is None else f"{format_count(value)}{unit}"
        lines.append(f"  {title:34s} {shown}")
    for level in signature.memory:
        latency = "" if level.latency_s is None else f", {level.latency_s * 1e9:.3g} ns away"
        lines.append(
            f"  {level.level + ' of ' + format_bytes(level.capacity_bytes):34s} "
            f"{format_count(level.total_bytes_per_s)}B/s{latency}"
        )
    lines.append(f"  {len(signature.kernel_times_s)} kernel times")
    return lines
