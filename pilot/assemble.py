"""Assemble a pilot's Profile from the results of all its runs.

Warnings about failures are added, and a reason for each missing counter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from berth.pilot import host
from berth.pilot.catalogue import BY_NAME
from berth.pilot.collectors.base import Stage
from berth.pilot.collectors.registry import COLLECTORS, names_of
from berth.pilot.derive import derive, missing
from berth.pilot.launch import ProcessResult
from berth.pilot.native import Native
from berth.pilot.options import Plan
from berth.pilot.plausible import (
    contention,
    cores_used,
    impossible,
    own_time_s,
    ran_elsewhere,
    refused,
    without_counts,
)
from berth.pilot.profile import (
    CollectorReport,
    Invocation,
    Measurement,
    Profile,
    ScalingPoint,
    SizePoint,
)
from berth.pilot.runs_on import detect


@dataclass(slots=True)
class Extra:
    """Results of a pilot's runs after the native runs; empty if the native runs failed."""

    counters: dict[str, Measurement] = field(default_factory=dict)
    reports: list[CollectorReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    sizes: tuple[SizePoint, ...] = ()
    scaling: tuple[ScalingPoint, ...] = ()
    one_thread_s: float | None = None
    gpus_used: int = 0
    interrupted: bool = False


def assemble(plan: Plan, native: Native, extra: Extra) -> Profile:
    """Return the Profile of a pilot from the results of its native and other runs."""
    first, options = native.first, plan.options
    command = plan.order(plan.main).command
    runs_on, hints = detect(
        command,
        options.env,
        first,
        gpus_used=extra.gpus_used,
        cores_used=cores_used(first),
        overrides=options.overrides,
    )
    interrupted = native.interrupted or extra.interrupted
    warnings = [*faults(first), *native.warnings, *extra.warnings, *hints]
    if interrupted:
        warnings.insert(0, "the pilot was interrupted: this is what was measured until then")
    memory = native.memory
    if memory is not None and memory.note:
        warnings.append(f"peak memory: {memory.note}")
    shared = contention(first)
    if shared is not None and native.runtime is not None:
        warnings.extend(filter(None, [shared.sentence(native.runtime)]))
    counters = {**native.counters, **extra.counters}
    elsewhere = ran_elsewhere(command, first)
    user_s = first.usage.get("ru_utime") if native.runtime else None
    counts = {name: m.value for name, m in counters.items() if m.value is not None}
    why = elsewhere or impossible(counts, runs_on, user_s, user_s)
    if why is not None:
        counters = without_counts(counters, f"refused: {why}")
        warnings.append(f"counters are refused, time and memory stay: {why}")
    if elsewhere is not None:
        memory = None
    unknown = sorted(set(counters).difference(BY_NAME))
    if unknown:
        warnings.append(f"not in the catalogue of counters, left out: {', '.join(unknown)}")
    if (line := refused(first)) is not None and native.runtime is not None:
        warnings.append(
            f"the program ended after {first.cpu_s:.2g} s of processor time with {line[:200]!r}: "
            "it did not do its work, so that it has no time"
        )
        native = replace(native, runtime=None)
    reports = (*native.reports, *extra.reports)
    return Profile(
        name=plan.name,
        platform=options.platform,
        workload=Invocation(
            command=options.command,
            size=plan.main,
            executable_sha256=host.sha256_of(Path(command[0])),
        ),
        runs_on=runs_on,
        exit_status=exit_status_of(first),
        complete=first.succeeded and not (interrupted or first.went_on or line),
        runtime=native.runtime,
        runtime_at_least_s=own_time_s(first) if first.cut == "time limit" else None,
        peak_memory_bytes=memory.bytes if memory is not None else None,
        peak_memory_is_bound=(memory is not None and memory.is_bound) or None,
        counters=with_missing(derive(counters), reports),
        sizes=extra.sizes,
        scaling=extra.scaling,
        one_thread_s=extra.one_thread_s,
        collectors=reports,
        warnings=tuple(warnings),
        machine=host.machine(),
        provenance=host.provenance(),
    )


def exit_status_of(outcome: ProcessResult) -> int:
    """Return the exit status as a shell reports it: 128 + the signal for a killed program."""
    if outcome.signal is not None:
        return 128 + outcome.signal
    return outcome.exit_code or 0


def faults(first: ProcessResult) -> list[str]:
    """Return warnings about failures of the program itself; empty if it succeeded."""
    sentences = []
    if not first.succeeded:
        sentences.append(f"the program {first.describe()}: what was measured is of that part only")
    if first.cut == "time limit":
        sentences.append(
            "its time and memory are at least that: pilot a smaller problem of it (--size, --sizes "
            "tell how it grows), or raise --time-limit"
        )
    if first.exit_code:
        sentences.append(
            "if it needs a terminal or input: a pilot gives no terminal, and a standard input that "
            "is empty without --stdin FILE"
        )
    if first.leftover:
        left = f"{first.leftover} process{'es' * (first.leftover > 1)}"
        sentences.append(
            f"the program went on in the background: its {left} had computed for "
            f"{first.leftover_s:.2g} s when the pilot ended them, so that its time and counts are "
            "not those of its work; let it stay in the foreground (many have an option for that)"
            if first.went_on
            else f"the program left {left} behind, which the pilot ended after a grace of 2 s"
        )
    return sentences


def with_missing(
    counters: Mapping[str, Measurement], reports: Sequence[CollectorReport]
) -> dict[str, Measurement]:
    """Return all counters of the catalogue.

    A counter that ``counters`` lacks is missing, with the reason from the collectors' reports.
    """
    unused = {report.name: report.detail for report in reports if report.status != "used"}
    result = {}
    for name, entry in BY_NAME.items():
        measurement = counters.get(name)
        result[name] = (
            measurement if measurement is not None else missing("none", _why(entry.sources, unused))
        )
    return result


def _why(sources: Mapping[str, str], unused: Mapping[str, str]) -> str:
    given_by = {source.partition(":")[0] for source in sources}
    for name in (n for stage in _ASKED_FIRST for n in names_of(stage) if n in given_by):
        kind = COLLECTORS.load(name)
        return kind.why_missing.format(name=name, detail=unused.get(name, kind.not_seen))
    if "derived" in given_by:
        return "one of the counters that it is computed from is missing"
    return "no collector gives it; imported profiles may"


_ASKED_FIRST = (Stage.EMULATED, Stage.NATIVE)
"""Order in which stages are searched for the reason of a missing counter. Emulated runs come first,
as they work on most machines."""
