"""Read rocprofv3's CSV: each kernel's time, launches and counters; and statistics of kernels.

``*_kernel_trace.csv`` has a row for each launch, with its times in nanoseconds.
``*_counter_collection.csv`` has a row for each launch and counter. ``*_kernel_stats.csv`` (and
``results.stats.csv`` of older versions) has a row for each kernel.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from berth.pilot.importers.reading import (
    MAX_NAMES,
    MAX_RECORDS,
    MAX_REGIONS,
    PROFILE,
    ImportedFile,
    ImportedRun,
    Metric,
    Region,
    count_of,
    fault,
    number,
    whole_runs,
)
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.profile import Target

HINT = "write it with: rocprofv3 --kernel-trace --output-format csv -- ./app"
NOT_SUMMED = ("Percent", "Util", "Busy", "Ratio", "HitRate", "Hit", "Stalled", "Occupancy", "_avr")
"""Ends of the names of counters whose values are shares or means: they cannot be summed."""
_NOT_KERNELS = ("hip", "hsa_", "MEMORY_COPY", "KERNEL_DISPATCH", "HIP_", "HSA_", "ROCTX")
"""Beginnings of the names in statistics of calls and copies, which have the same columns."""
_NS = 1e-9


@dataclass(slots=True)
class _KernelTimes:
    seconds: float = 0.0
    launches: int = 0
    seen: set[str] = field(default_factory=set)
    """Identities of the launches whose times are summed: a launch has a row for each counter."""
    counters: dict[str, float] = field(default_factory=dict)


def read(source: ImportedFile) -> ImportedRun:
    """Return the kernels of a rocprofv3 CSV file, one Region each, summed over their launches.

    Raises DocumentError that names the faulty line.
    """
    kernels: dict[str, _KernelTimes] = {}
    for line, row in _rows(source):
        if "TotalDurationNs" in row:
            name, seconds, launches = _statistics(source, line, row)
            kernel = kernels.setdefault(name, _KernelTimes())
            kernel.seconds += seconds
            kernel.launches += launches
        else:
            _add_launch(source, line, row, kernels)
        if len(kernels) > MAX_REGIONS:
            raise fault(source.path, line, f"is beyond {MAX_REGIONS} kernels")
    if not kernels:
        raise fault(source.path, None, "names no kernel", HINT)
    return ImportedRun(
        tool="rocprof",
        sources=("rocprof",),
        regions=tuple(_region(name, kernel) for name, kernel in kernels.items()),
        targets=(Target.HIP,),
    )


def _rows(source: ImportedFile) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.DictReader(io.StringIO(source.text, newline=""), restval="")
    try:
        for count, row in enumerate(reader):
            if count >= MAX_RECORDS:
                raise fault(source.path, reader.line_num, f"is beyond {MAX_RECORDS} rows")
            if None in row:
                raise fault(source.path, reader.line_num, "has more fields than the header", HINT)
            yield reader.line_num, row
    except csv.Error as error:
        raise fault(source.path, reader.line_num, f"is not CSV: {error}", HINT) from None


def _statistics(source: ImportedFile, line: int, row: Mapping[str, str]) -> tuple[str, float, int]:
    name = row.get("Name", "").removesuffix(".kd")
    total, calls = number(row["TotalDurationNs"]), number(row.get("Calls", ""))
    if not name or total is None or calls is None or not 0 < calls <= MAX_RECORDS or total <= 0:
        raise fault(source.path, line, "is not a kernel with calls and a time", HINT)
    if name.startswith(_NOT_KERNELS):
        raise fault(source.path, line, f"{name[:40]!r} is a call or a copy, not a kernel", HINT)
    return name, total * _NS, int(calls)


def _add_launch(
    source: ImportedFile, line: int, row: Mapping[str, str], kernels: dict[str, _KernelTimes]
) -> None:
    name, launch = row.get("Kernel_Name", "").removesuffix(".kd"), row.get("Dispatch_Id", "")
    begin, end = number(row.get("Start_Timestamp", "")), number(row.get("End_Timestamp", ""))
    if not name or not launch or begin is None or end is None or end < begin:
        raise fault(source.path, line, "is not a launch of a kernel with its times", HINT)
    kernel = kernels.setdefault(name, _KernelTimes())
    key = f"{row.get('Process_Id', '')}:{row.get('Agent_Id', '')}:{launch}"
    if key not in kernel.seen:
        kernel.seen.add(key)
        kernel.launches += 1
        kernel.seconds += (end - begin) * _NS
    counter = row.get("Counter_Name", "")
    if not counter:
        return
    value = count_of(row.get("Counter_Value", ""))
    if value is None:
        raise fault(source.path, line, f"{counter} has no value", HINT)
    kernel.counters[counter] = kernel.counters.get(counter, 0.0) + value
    if len(kernel.counters) > MAX_NAMES:
        raise fault(source.path, line, f"is beyond {MAX_NAMES} counters")


def _region(name: str, kernel: _KernelTimes) -> Region:
    metrics = {"launches": Metric(float(kernel.launches))}
    problems = {}
    for counter, value in kernel.counters.items():
        if counter.endswith(NOT_SUMMED):
            problems[counter] = "no total that can be summed over launches"
        else:
            metrics[counter] = Metric(value)
    return Region((name,), metrics, problems, kernel.seconds or None, "time of its kernels")


READERS = (
    FileReader("rocprof", PROFILE, (
        FileKind("rocprofv3's kernels", "rocprof",
                 columns=("Kernel_Name", "Dispatch_Id", "Start_Timestamp", "End_Timestamp")),
        FileKind("rocprof's or rocprofv3's statistics", "rocprof",
                 columns=("Name", "Calls", "TotalDurationNs")),
    ), whole_runs(read)),
)  # fmt: skip
