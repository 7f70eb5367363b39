"""Convert an ImportedRun to Profiles with the catalogue's counters.

Each counter without a value has the reason why it is missing.
"""

from __future__ import annotations

import fnmatch
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from berth.pilot import host
from berth.pilot.catalogue import BY_NAME, REQUIRED, Term, alternatives, from_source, names
from berth.pilot.derive import derive, missing
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.importers.reading import ImportedFile, ImportedRun, Metric, Region
from berth.pilot.plausible import impossible, no_count, without_counts
from berth.pilot.profile import (
    CollectorReport,
    Imported,
    Invocation,
    Measurement,
    Profile,
    Quality,
    RunsOn,
    Runtime,
    Target,
)

OWN_ACCOUNT = frozenset(["rajaperf"])
"""Sources whose counts the program reports about itself; they count as derived, not measured."""
READ_OTHERWISE = frozenset(["ProblemSize", "duration_time"])
"""Metrics that are used as size or runtime, not as counters."""
ABSENT = "the file has no"
SHOWN = 12
MOST_DETAIL = 4_000


@dataclass(frozen=True, slots=True)
class Wishes:
    """The user's statements about the run, for facts that the file may lack."""

    platform: str
    name: str | None = None
    size: float | None = None
    runtime_s: float | None = None
    targets: tuple[Target, ...] = ()
    threads: int | None = None
    ranks: int | None = None
    regions: tuple[str, ...] = ()
    """Shell patterns that region paths or names must match; empty: all regions."""


def chosen(
    readings: Iterable[ImportedRun], patterns: tuple[str, ...]
) -> list[tuple[ImportedRun, Region]]:
    """Return the regions that match any of the patterns, each with its ImportedRun.

    Raises UsageError where no region matches.
    """
    everything = [(reading, region) for reading in readings for region in reading.regions]
    matching = [pair for pair in everything if not patterns or _wanted(pair[1], patterns)]
    if everything and not matching:
        known = list(dict.fromkeys(region.label for _, region in everything))
        more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        raise UsageError(
            f"no region matches {' or '.join(repr(p) for p in patterns)}",
            hint=f"there are: {', '.join(known[:SHOWN])}{more}",
        )
    return matching


def left_out(reading: ImportedRun) -> list[str]:
    """Return the names of the file's metrics that no counter of the catalogue uses, sorted."""
    wanted = {n for key in reading.sources for f in from_source(key).values() for n in names(f)}
    reported: set[str] = set()
    for region in reading.regions:
        reported |= set(region.metrics) | set(region.problems)
    unknown = reported - wanted - READ_OTHERWISE
    return sorted(name for name in unknown if name.removesuffix(".per_second") not in wanted)


def profile(reading: ImportedRun, region: Region, source: ImportedFile, wishes: Wishes) -> Profile:
    """Return the Profile of one region of an imported file.

    Raises DocumentError where a Profile does not allow a value of the region.
    """
    try:
        return _profile(reading, region, source, wishes)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{region.label[:200]}: {where}: {first['msg']}"
        raise DocumentError(source.path, f"makes no Profile: {problem}") from None


def _profile(reading: ImportedRun, region: Region, source: ImportedFile, wishes: Wishes) -> Profile:
    faults = {n: why for n, m in region.metrics.items() if (why := no_count(m.value)) is not None}
    usable = {name: metric for name, metric in region.metrics.items() if name not in faults}
    region = replace(region, metrics=usable, problems={**region.problems, **faults})
    runtime, warnings = _runtime(region, wishes)
    warnings += [f"{name}: {why}" for name, why in faults.items()]
    kinds = wishes.targets or reading.targets or (Target.CPU,)
    threads = wishes.threads or reading.threads
    runs_on = RunsOn(
        targets=kinds,
        architecture=reading.architecture or "x86_64",
        threads=threads or 1,
        ranks=wishes.ranks or reading.ranks or 1,
        gpus=0 if Target.CPU in kinds else 1,
    )
    measured, missing_because, unused = _counters(reading, region)
    why = _impossible(measured, runs_on, runtime.median_s if threads and runtime else None)
    if why is not None:
        measured = without_counts(measured, f"refused: {why}")
        warnings.append(f"counters are refused, times stay: {why}")
    counters = _with_missing(measured, missing_because, reading)
    stem = wishes.name or source.path.name.partition(".")[0]
    name = plain_name(f"{stem}.{region.path[-1]}" if region.path else stem)
    if not wishes.targets and reading.targets is None:
        warnings.append("the file does not say what it runs on: taken as cpu (--runs-on)")
    valued = sum(1 for m in counters.values() if m.value is not None)
    if not valued and runtime is None:
        raise DocumentError(
            source.path,
            f"{region.label[:200]}: has neither a time nor a counter that Berth knows",
            hint="count some of: " + ", ".join(REQUIRED) + " (docs/import.md), or give --runtime",
        )
    detail = f"{valued} counters from {reading.tool}"
    if unused:
        detail += f"; not in the catalogue: {', '.join(unused)}"
    if len(detail) > MOST_DETAIL:
        detail = f"{detail[:MOST_DETAIL]}..."
    return Profile(
        name=name,
        platform=wishes.platform,
        workload=Invocation(
            command=reading.command or (source.path.name,),
            size=wishes.size or region.size,
        ),
        runs_on=runs_on,
        runtime=runtime,
        peak_memory_bytes=None,
        counters=counters,
        collectors=(CollectorReport(name=f"import:{reading.tool}", status="used", detail=detail),),
        warnings=(*reading.warnings, *warnings),
        provenance=host.provenance().model_copy(
            update={
                "host_cpu": reading.host_cpu,
                "kernel": "",
                "imported": Imported(
                    tool=reading.tool,
                    tool_version=reading.version,
                    file=source.path.name,
                    file_sha256=source.sha256,
                    region=region.label,
                    measured=reading.measured,
                ),
            }
        ),
    )


def distinct(profiles: list[Profile]) -> list[Profile]:
    """Return the Profiles with unique names: equal names get a hash of their region's path."""
    counts: dict[str, int] = {}
    for profile in profiles:
        counts[profile.name] = counts.get(profile.name, 0) + 1
    renamed: list[Profile] = []
    for index, profile in enumerate(profiles):
        if counts[profile.name] > 1:
            imported = profile.provenance.imported
            key = f"{index}:{imported.region if imported else ''}"
            tail = hashlib.sha256(key.encode()).hexdigest()[:8]
            renamed.append(profile.model_copy(update={"name": f"{profile.name[:118]}-{tail}"}))
        else:
            renamed.append(profile)
    return renamed


def plain_name(text: str) -> str:
    """Return ``text`` as a valid Profile name.

    Other characters become ``_``; a long name is cut and gets a hash.
    """
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "_", text).strip("_.+-") or "region"
    if len(name) > 120:
        name = f"{name[:110]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return name


def _wanted(region: Region, patterns: tuple[str, ...]) -> bool:
    last = region.path[-1] if region.path else ""
    return any(
        fnmatch.fnmatchcase(text, pattern) for pattern in patterns for text in (region.label, last)
    )


def _runtime(region: Region, wishes: Wishes) -> tuple[Runtime | None, list[str]]:
    seconds = wishes.runtime_s or region.runtime_s
    if seconds is None:
        return None, [f"no runtime: {region.runtime_note} (or tell it with --runtime)"]
    how = "as given" if wishes.runtime_s else region.runtime_note
    runtime = Runtime(median_s=seconds, spread_s=0.0, repeats_s=(seconds,))
    return runtime, [f"runtime: {how}; of one run, so its spread is not known"]


def _counters(
    reading: ImportedRun, region: Region
) -> tuple[dict[str, Measurement], dict[str, str], list[str]]:
    """Return the region's counters, why others are missing, and the names that none uses."""
    measured: dict[str, Measurement] = {}
    why: dict[str, str] = {}
    used: set[str] = set()
    for key in reading.sources:
        for counter, formula in from_source(key).items():
            used |= names(formula)
            measurement, problem = _evaluate(key, formula, region)
            if measurement is not None:
                measured.setdefault(counter, measurement)
            elif why.get(counter, ABSENT).startswith(ABSENT):
                why[counter] = problem
    unused = (set(region.metrics) | set(region.problems)) - used
    return measured, why, sorted(unused - READ_OTHERWISE)


def _impossible(
    measured: Mapping[str, Measurement], runs_on: RunsOn, seconds: float | None
) -> str | None:
    """Return why the counts cannot all be of one run, or None.

    ``seconds``: wall time of all its threads; None: unknown.
    """
    counts = {name: m.value for name, m in measured.items() if m.value is not None}
    cpu_s, system_s = counts.get("cpu_time_s"), counts.get("cpu_system_s")
    user_s = None if cpu_s is None or system_s is None else cpu_s - system_s
    if cpu_s is None and seconds is not None:
        cpu_s = seconds * runs_on.threads * runs_on.ranks
    return impossible(counts, runs_on, cpu_s, user_s)


def _with_missing(
    measured: Mapping[str, Measurement], why: Mapping[str, str], reading: ImportedRun
) -> dict[str, Measurement]:
    """Return all counters of the catalogue, missing ones with the reason."""
    derived, source = derive(measured), f"import:{reading.tool}"
    return {
        counter: derived[counter]
        if counter in derived
        else missing(source, why.get(counter, _why(counter, reading)))
        for counter in BY_NAME
    }


def _why(counter: str, reading: ImportedRun) -> str:
    if "derived" in BY_NAME[counter].sources:
        return "one of the counters that it is computed from is missing"
    return f"{reading.tool} has no name for it in the catalogue"


def _evaluate(key: str, formula: str, region: Region) -> tuple[Measurement | None, str]:
    """Return the value of a counter's formula over a region's metrics, or the reason for none.

    The first alternative of the formula whose metrics all have values is used.
    """
    problem = ""
    for terms in alternatives(formula):
        absent = [n for term in terms for n in term.names if n not in region.metrics]
        if not absent:
            return _measurement(key, terms, region.metrics), ""
        reported = [f"{n}: {region.problems[n]}" for n in absent if n in region.problems]
        if reported or not problem:
            problem = "; ".join(reported) or f"{ABSENT} {', '.join(dict.fromkeys(absent))}"
    return None, problem


def _measurement(key: str, terms: tuple[Term, ...], metrics: Mapping[str, Metric]) -> Measurement:
    used = [metrics[name] for term in terms for name in term.names]
    value = sum(term.weight * math.prod(metrics[n].value for n in term.names) for term in terms)
    notes = list(dict.fromkeys(m.note for m in used if m.note))
    quality = Quality.MEASURED
    if key in OWN_ACCOUNT:
        quality = Quality.DERIVED
        notes.append("the program's own account")
    errors = [m.relative_error for m in used if m.relative_error is not None]
    return Measurement(
        value=value,
        quality=quality,
        source=key,
        note="; ".join(notes) or None,
        standard_error=value * max(errors) if errors else None,
        complete=all(m.complete for m in used),
    )


def file_name(path: Path, profile: Profile) -> Path:
    """Return the path of a Profile's file in a folder of Profiles."""
    return path / f"{profile.name}.json"
