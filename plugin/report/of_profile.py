"""Reports measurements: one Profile with its counters, a table of Profiles, runs of models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from berth.pilot.catalogue import BY_NAME, GROUPS
from berth.pilot.instruction_sets import NOT_NAMED
from berth.pilot.profile import Measurement, Profile, Quality, SizePoint
from berth.pilot.units import counted, format_bytes, format_count, format_seconds
from berth.plugin.report.parts import Column, Part, Report, Table, seconds

if TYPE_CHECKING:
    from berth.pilot.dl.document import ModelRun

MOST_PROFILES = 40
"""Maximum number of Profiles in the table on a terminal; JSON and CSV have all."""
MOST_NOTES = 12
_DISTURBED = 0.2
"""Share (0 to 1) of disturbed time in a run on one CPU thread, above which the report counts the
run as disturbed."""


class _Counted(NamedTuple):
    """A counter's measurement, with the counter's unit and group from the catalogue."""

    name: str
    unit: str
    group: str
    measurement: Measurement


def _value(row: _Counted) -> str:
    value = row.measurement.value or 0.0
    if row.unit == "ratio":
        return f"{value:.4f}"
    if row.unit == "count" and value < 100_000:
        return f"{value:.0f}"
    return format_count(value)


def _quality(row: _Counted) -> str:
    return row.measurement.quality.value + " (part)" * (not row.measurement.complete)


COUNTERS: tuple[Column[_Counted], ...] = (
    Column("Counter", "counter", lambda row: row.name),
    Column("Value", "value", lambda row: row.measurement.value, words=_value, kind=float),
    Column("Unit", "unit", lambda row: row.unit),
    Column("Quality", "quality", _quality),
    Column("Source", "source", lambda row: row.measurement.source),
    Column("Group", "group", lambda row: row.group),
)
"""The columns of one run's counters."""


def _known_counters(profile: Profile) -> int:
    return sum(measurement.value is not None for measurement in profile.counters.values())


PROFILES: tuple[Column[Profile], ...] = (
    Column("Profile", "profile", lambda profile: profile.name),
    Column("Region", "region",
           lambda profile: profile.provenance.imported and profile.provenance.imported.region),
    seconds("Time", "runtime_s", lambda profile: profile.runtime and profile.runtime.median_s),
    Column("Counters", "counters", _known_counters,
           words=lambda profile: f"{_known_counters(profile)} of {len(profile.counters)}",
           kind=float),
)  # fmt: skip
"""The columns of a table of Profiles."""


def profile_report(
    profile: Profile, *, counters: bool = False, cost_s: float | None = None
) -> Report:
    """Return the report of one Profile: what it takes, what limits it, and warnings.

    ``counters``: with the table of counters, by group; ``cost_s``: processor time in seconds that
    the pilot took, None: not known.
    """
    rows = [
        _Counted(name, entry.unit, title, measurement)
        for group, title in GROUPS.items()
        for name, entry in BY_NAME.items()
        if counters
        and entry.group == group
        and (measurement := profile.counters.get(name)) is not None
        and measurement.quality is not Quality.MISSING
    ]
    parts = [Part("", tables=[Table("Counters", COUNTERS, rows)])] if rows else []
    facts = Part("", facts=[*profile_facts(profile), *_cost(profile, cost_s)])
    return Report(f"{profile.name} on {profile.platform}", "", [*parts, facts])


def _cost(profile: Profile, cost_s: float | None) -> Iterator[tuple[str, str]]:
    own_s = profile.value("cpu_time_s")
    if cost_s is not None:
        times = f", {cost_s / own_s:.1f} times the program's" if own_s else ""
        yield "cost", f"{format_seconds(cost_s)} of processor time for this pilot{times}"


def profile_facts(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield pairs of name and text: time, cores, memory, hardware, warnings."""
    runtime, runs_on = profile.runtime, profile.runs_on
    own_s = profile.value("cpu_time_s")
    if runtime is not None:
        spread, runs = format_seconds(runtime.spread_s), counted(len(runtime.repeats_s), "run")
        yield "time", f"{format_seconds(runtime.median_s)} (spread {spread}, {runs})"
    elif profile.runtime_at_least_s is not None:
        yield "time", f"at least {format_seconds(profile.runtime_at_least_s)}: it was cut there"
    if own_s:
        took_s = profile.runtime_at_least_s if runtime is None else runtime.median_s
        used = f", {own_s / took_s:.2g} cores used" if took_s else ""
        yield "", f"{format_seconds(own_s)} of processor time{used}"
    if (peak := profile.peak_memory_bytes) is not None:
        yield "memory", f"{_memory(peak, profile)} of the host"
    if on_gpus := profile.value("gpu_memory_bytes"):
        yield "", f"{format_bytes(on_gpus)} of the GPUs"
    moved = [profile.value(name) for name in ("io_bytes_read", "io_bytes_written")]
    if any(moved):
        yield "files", "{} read, {} written".format(*(format_bytes(each or 0.0) for each in moved))
    if (limit := limited_by(profile)) is not None:
        yield "limited by", limit
    kinds = ", ".join(target.value for target in runs_on.targets)
    extensions = "".join(
        f" {'and unknown instructions' if name == NOT_NAMED else name}"
        for name in runs_on.instruction_sets
    )
    yield (
        "runs on",
        f"{kinds} ({runs_on.architecture}{extensions}), {counted(runs_on.threads, 'thread')}, "
        f"{counted(runs_on.ranks, 'rank')}",
    )
    for point in profile.sizes:
        memory = _memory(point.peak_memory_bytes, point)
        yield "size", f"{point.size:g}: {format_seconds(point.runtime_s)}, {memory}"
    for step in profile.scaling:
        yield "threads", f"{step.threads}: {format_seconds(step.runtime_s)}"
    if profile.one_thread_s is not None:
        yield "threads", f"1: {format_seconds(profile.one_thread_s)}"
    used_names = [c.name for c in profile.collectors if c.status == "used"]
    numbers = counted(_known_counters(profile), "counter")
    yield "measured", f"{numbers} by {', '.join(used_names) or 'nothing'} (--counters shows them)"
    for collector in profile.collectors:
        if collector.status in ("absent", "failed") and collector.name not in _OFTEN_ABSENT:
            yield collector.status, f"{collector.name}: {collector.detail}"
    said = {f"{c.name}: {c.detail}" for c in profile.collectors if c.status == "failed"}
    yield from (("warning", text) for text in profile.warnings if text not in said)


_OFTEN_ABSENT = frozenset(("perf", "nvml"))
"""Collectors that most machines lack; the Profile says why."""
_WAITING, _OF_MEMORY = 0.5, 0.2
"""A program waits if it keeps less than this share of a core busy; it is limited by main memory if
its misses of the last cache take at least this share of its time."""
_MISS_S = 80e-9
"""Typical time of a miss of the last cache."""
_IO_BYTES_PER_S = 20e6
"""A program that waits and moves at least so many bytes to or from storage waits for them."""


def limited_by(profile: Profile) -> str | None:
    """Return what limits a program: waiting, files, memory or compute; None: not known.

    Without counts, memory and compute are not told apart.
    """
    runtime, own_s = profile.runtime, profile.value("cpu_time_s")
    if runtime is None or own_s is None:
        return None
    if own_s < _WAITING * runtime.median_s:
        stored = (profile.value(f"storage_bytes_{way}") or 0.0 for way in ("read", "written"))
        is_io = sum(stored) >= _IO_BYTES_PER_S * runtime.median_s
        return "files (it waits for storage)" if is_io else "waiting (for time, network or others)"
    misses = profile.value("llc_load_misses")
    if misses is None:
        return "compute or memory (--count tells them apart)"
    return "memory" if misses * _MISS_S >= _OF_MEMORY * own_s else "compute"


def _memory(peak: float, of: Profile | SizePoint) -> str:
    return f"{'at most ' if of.peak_memory_is_bound else ''}{format_bytes(peak)}"


def profiles_part(profiles: Sequence[Profile]) -> Part:
    """Return the report section with a line for each Profile, and the warnings of all of them."""
    warnings = list(dict.fromkeys(text for profile in profiles for text in profile.warnings))
    notes = [f"note: {text}" for text in warnings[:MOST_NOTES]]
    if len(warnings) > MOST_NOTES:
        notes.append(f"... and {len(warnings) - MOST_NOTES} more; each Profile holds its own")
    table = Table("Profiles", PROFILES, profiles, most=MOST_PROFILES)
    return Part("", tables=[table], notes=notes)


def _peak_bytes(run: ModelRun) -> float | None:
    values = (_measured(run, name) for name in ("gpu_reserved_bytes", "host_peak_bytes"))
    return next((value for value in values if value is not None), None)


def _measured(run: ModelRun, name: str) -> float | None:
    measurement = run.measurements.get(name)
    return None if measurement is None else measurement.value


RUNS: tuple[Column[ModelRun], ...] = (
    Column("Model", "model", lambda run: run.model.name),
    Column("Task", "task", lambda run: run.setting.task.value),
    Column("Batch", "batch", lambda run: run.setting.batch, kind=float),
    Column("Precision", "precision", lambda run: run.setting.precision.value),
    Column("Outcome", "outcome", lambda run: run.outcome.value),
    seconds("Latency", "latency_s", lambda run: run.latency and run.latency.median_s),
    seconds("Spread", "spread_s", lambda run: run.latency and run.latency.spread_s),
    seconds("Processor time", "processor_time_s",
            lambda run: run.processor_time and run.processor_time.median_s),
    Column("Peak memory", "peak_memory_bytes", _peak_bytes, format_bytes, "bytes"),
    Column("Energy", "energy_j", lambda run: _measured(run, "energy_j"), "{:.3g} J".format, "J"),
)  # fmt: skip
"""The columns of measurements of deep-learning models."""


def runs_part(runs: Sequence[ModelRun]) -> Part:
    """Return the report section with models' measurements, why some failed, and what disturbed
    them."""
    notes = [
        f"{run.model.name}, batch {run.setting.batch}: {run.reason}"
        for run in runs
        if run.outcome.value != "ok"
    ]
    energies = [run.measurements["energy_j"] for run in runs if "energy_j" in run.measurements]
    without = {energy.note for energy in energies if energy.value is None and energy.note}
    notes += [f"no energy: {note}" for note in sorted(without)]
    disturbed = sum(
        run.disturbance is not None
        and run.disturbance.disturbed_share > _DISTURBED
        and run.setting.threads == 1
        and run.setting.device.value == "cpu"
        for run in runs
    )
    if disturbed:
        notes.append(
            f"{disturbed} of {len(runs)} were disturbed by other work: on an idle machine the "
            "latency would be near the processor time"
        )
    return Part("", tables=[Table("Measurements", RUNS, runs)], notes=notes)
