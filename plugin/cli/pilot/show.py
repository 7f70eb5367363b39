"""A Profile as tables for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from berth.pilot.catalogue import BY_NAME, GROUPS
from berth.pilot.profile import Measurement, Profile, Quality, SizePoint
from berth.pilot.units import counted, format_bytes, format_count, format_seconds
from berth.plugin.cli.output.columns import record

_HEADER = ("counter", "value", "unit", "quality", "source")
WIDTH = 100
"""Columns of the table where there is no terminal to ask."""


def print_profile(profile: Profile) -> None:
    """Counters by group with unit, quality and source; runtime, memory, warnings."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    groups = [(title, _rows(profile, group)) for group, title in GROUPS.items()]
    record(_HEADER, [row for _, rows in groups for row in rows])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _HEADER:
        table.add_column(title, justify="right" if title == "value" else "left", no_wrap=True)
    for title, rows in groups:
        if rows:
            table.add_row(f"[dim]{title}[/dim]")
        for row in rows:
            table.add_row(*row)
    console.print(f"[bold]{profile.name}[/bold] on {profile.platform}", markup=True)
    console.print(table)
    console.print()
    for line in summary(profile):
        console.print(line, markup=False, soft_wrap=True)


def summary(profile: Profile) -> list[str]:
    """Runtime, memory, where it runs, what could not be had, warnings: one line each."""
    lines = []
    runtime, runs_on = profile.runtime, profile.runs_on
    if runtime is not None:
        spread = format_seconds(runtime.spread_s)
        count = len(runtime.repeats_s)
        lines.append(
            f"runtime   {format_seconds(runtime.median_s)} (spread {spread}, {count} runs)"
        )
    if (peak := profile.peak_memory_bytes) is not None:
        lines.append(f"memory    {_memory(peak, profile)} of the host")
    if on_gpus := profile.value("gpu_memory_bytes"):
        lines.append(f"          {format_bytes(on_gpus)} of the GPUs")
    kinds = ", ".join(target.value for target in runs_on.targets)
    extensions = f" {' '.join(runs_on.instruction_sets)}" if runs_on.instruction_sets else ""
    lines.append(
        f"runs on   {kinds} ({runs_on.architecture}{extensions}), "
        f"{counted(runs_on.threads, 'thread')}, {counted(runs_on.ranks, 'rank')}"
    )
    for point in profile.sizes:
        memory = _memory(point.peak_memory_bytes, point)
        lines.append(f"size      {point.size:g}: {format_seconds(point.runtime_s)}, {memory}")
    for step in profile.scaling:
        lines.append(f"threads   {step.threads}: {format_seconds(step.runtime_s)}")
    if profile.one_thread_s is not None:
        lines.append(f"threads   1: {format_seconds(profile.one_thread_s)}")
    used = [report.name for report in profile.collectors if report.status == "used"]
    lines.append(f"measured  by {', '.join(used) or 'nothing'}")
    for report in profile.collectors:
        if report.status in ("absent", "failed"):
            lines.append(f"{report.status:9s} {report.name}: {report.detail}")
    lines.extend(f"warning   {text}" for text in profile.warnings)
    return lines


def _rows(profile: Profile, group: str) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for name, entry in BY_NAME.items():
        measurement = profile.counters.get(name)
        if entry.group != group or measurement is None or measurement.quality is Quality.MISSING:
            continue
        part = "" if measurement.complete else " (part)"
        quality = f"{measurement.quality.value}{part}"
        rows.append(
            (name, _value(measurement, entry.unit), entry.unit, quality, measurement.source)
        )
    return rows


def _memory(peak: float, of: Profile | SizePoint) -> str:
    return f"{format_bytes(peak)}{' at most' if of.peak_memory_is_bound else ''}"


def _value(measurement: Measurement, unit: str) -> str:
    value = measurement.value or 0.0
    if unit == "ratio":
        return f"{value:.4f}"
    if unit == "count" and value < 100_000:
        return f"{value:.0f}"
    return format_count(value)
