"""Reports hardware: tables of platforms and of data sheets, and one machine's benchmarked rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from berth.pilot.platform import Platform, Precision
from berth.pilot.units import format_bytes, format_count
from berth.plugin.report.parts import Column, Part, Report, Table
from berth.predictor.hardware.core_speed import processor_score
from berth.predictor.hardware.device import DataSheet, best
from berth.predictor.hardware.processor import Processor


def _memory_rate(platform: Platform) -> float | None:
    dram = platform.signature.level("dram")
    return None if dram is None else dram.total_bytes_per_s


PLATFORMS: tuple[Column[Platform], ...] = (
    Column("Platform", "name", lambda platform: platform.name),
    Column("Kind", "kind", lambda platform: platform.kind.value),
    Column("Cores", "cores", lambda platform: platform.cores, kind=float),
    Column("Memory", "memory_bytes", lambda platform: platform.memory_bytes, format_bytes, "bytes"),
    Column("Flop/s fp64", "flops_f64_per_s", lambda platform: platform.signature.flops_f64_per_s,
           format_count, "1/s"),
    Column("Byte/s", "dram_bytes_per_s", _memory_rate, format_count, "1/s"),
    Column("Source", "source", lambda platform: platform.signature.source.value),
    Column("Part of", "parent", lambda platform: platform.parent, is_wide=True),
)  # fmt: skip
"""The columns of platforms: their main ceilings and the ceilings' source."""


def _rate(title: str, precision: Precision) -> Column[DataSheet]:
    def value(device: DataSheet) -> float | None:
        return best(device.peaks, precision) if device.peaks else None

    return Column(
        f"{title}, T", f"{precision.value}_per_s", value, lambda rate: f"{rate / 1e12:.4g}", "1/s"
    )


_PRECISIONS = (Precision.FP64, Precision.FP32, Precision.BF16, Precision.FP16, Precision.FP8)
DEVICES: tuple[Column[DataSheet], ...] = (
    Column("Device", "name", lambda device: device.name),
    Column("Memory", "memory_bytes", lambda device: device.memory_bytes, format_bytes, "bytes"),
    Column("GB/s", "bytes_per_s", lambda device: device.bytes_per_s,
           lambda rate: f"{rate / 1e9:.4g}", "1/s"),
    *(_rate(precision.value, precision) for precision in _PRECISIONS),
    Column("W", "power_w", lambda device: device.power_w, "{:.4g}".format, "W"),
    Column("Also called", "aliases", lambda device: list(device.aliases),
           lambda aliases: ", ".join(aliases[:3]), kind=list[str]),
)  # fmt: skip
"""The columns of the accelerators' data sheets."""


def platforms_table(platforms: Sequence[Platform]) -> Table[Platform]:
    """Return a table with a line for each platform."""
    return Table("Platforms", PLATFORMS, platforms)


def devices_table(devices: Sequence[DataSheet]) -> Table[DataSheet]:
    """Return a table with a line for each accelerator's data sheet."""
    return Table("Accelerators, by their data sheets", DEVICES, devices)


def _score(processor: Processor, kind: str) -> str:
    """Return a core's score; with ``~`` where it is estimated from other models."""
    score = processor_score(processor)
    return f"{'~' if score.deviation else ''}{getattr(score, kind):.3g}"


PROCESSORS: tuple[Column[Processor], ...] = (
    Column("Processor", "name", lambda processor: processor.name),
    Column("Core", "core", lambda processor: processor.core),
    Column("Cores", "cores", lambda processor: processor.cores, kind=float),
    Column("Boost GHz", "boost_hz", lambda processor: processor.boost_hz,
           lambda rate: f"{rate / 1e9:.2f}", "Hz"),
    Column("GB/s", "bytes_per_s", lambda processor: processor.bytes_per_s,
           lambda rate: f"{rate / 1e9:.4g}", "1/s"),
    Column("Integer", "integer_score", lambda processor: processor_score(processor).integer,
           words=lambda processor: _score(processor, "integer"), kind=float),
    Column("Floating point", "floating_point_score",
           lambda processor: processor_score(processor).floating_point,
           words=lambda processor: _score(processor, "floating_point"), kind=float),
    Column("Model", "model", lambda processor: processor.model),
    Column("Source", "source", lambda processor: processor.source, is_wide=True),
)  # fmt: skip
"""The columns of the processors' data sheets."""


def processors_table(processors: Sequence[Processor]) -> Table[Processor]:
    """Return a table with a line for each processor's data sheet."""
    return Table("Processors, by their data sheets", PROCESSORS, processors)


RATES: tuple[tuple[str, Callable[[Platform], float | None], str], ...] = (
    ("double precision, all cores", lambda p: p.signature.flops_f64_per_s, "flop/s"),
    ("single precision, all cores", lambda p: p.signature.flops_f32_per_s, "flop/s"),
    ("double precision, one core", lambda p: p.signature.flops_f64_core_per_s, "flop/s"),
    ("integer operations, one core", lambda p: p.signature.int_ops_core_per_s, "op/s"),
    ("dependent operations, one core", lambda p: p.signature.scalar_chain_core_per_s, "op/s"),
    ("mispredicted branches, one core", lambda p: p.signature.branch_misses_core_per_s, "/s"),
    ("gathered elements, one core", lambda p: p.signature.gather_core_per_s, "/s"),
    ("reduction, all cores", lambda p: p.signature.reduction_total_bytes_per_s, "B/s"),
    ("atomic updates of one address", lambda p: p.signature.atomics_per_s, "/s"),
    ("atomic updates of many", lambda p: p.signature.scattered_atomics_per_s, "/s"),
)
"""The rates of a platform's Signature: title, value and unit."""


def signature_report(platform: Platform, notes: Sequence[str]) -> Report:
    """Return the report of a benchmarked machine's rates; ``notes``: more sentences to add."""
    rates = [(title, read(platform), unit) for title, read, unit in RATES]
    facts = [
        (title, "not measured" if rate is None else f"{format_count(rate)}{unit}")
        for title, rate, unit in rates
    ]
    for level in platform.signature.memory:
        latency = "" if level.latency_s is None else f", {level.latency_s * 1e9:.3g} ns away"
        facts.append(
            (
                f"{level.level} of {format_bytes(level.capacity_bytes)}",
                f"{format_count(level.total_bytes_per_s)}B/s{latency}",
            )
        )
    kernels = f"{len(platform.signature.kernel_times_s)} kernel times"
    headline = f"{platform.name}: {platform.description}"
    return Report("", headline, [Part("", facts=facts, notes=[kernels, *notes])])
