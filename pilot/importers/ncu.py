"""Read ``ncu --csv``: the details page, the raw page, and tables of chosen ``--metrics``.

Each kernel name becomes one region, summed over the kernel's launches. Sums and durations are
added. Rates are multiplied by the launch's duration to give totals. Percentages, ratios and
averages are not totals; they are listed as left out. Numbers must be in the form of the C and
English locales (``1,234.5``); a comma that does not separate thousands is refused, because other
locales use it differently.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from berth.pilot.importers.reading import (
    MAX_NAMES,
    MAX_RECORDS,
    PROFILE,
    SECONDS,
    ImportedFile,
    ImportedRun,
    Metric,
    Region,
    count_of,
    fault,
    whole_runs,
)
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.profile import Target

NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
OTHER_LOCALE = re.compile(r"-?\d[\d.,' ]*")
PREFIX = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
AMOUNT = re.compile(
    r"([KkMGT]?)(byte|inst|cycle|sector|request|warp|thread|block|register|hz)s?", re.IGNORECASE
)
GRID = re.compile(r"\(\s*\d{1,10}(?:,\s*\d{1,10}){0,2}\s*\)")
DURATION = "gpu__time_duration.sum"
DISPLAYED = {
    ("Duration", "time"): DURATION,
    ("Elapsed Cycles", "amount"): "sm__cycles_elapsed.max",
    ("Executed Instructions", "amount"): "smsp__inst_executed.sum",
    ("Memory Throughput", "rate"): "dram__bytes.sum.per_second",
    ("Grid Size", "amount"): "launch__grid_size",
}
"""ncu's metric for each (name, kind of unit) on the details page."""
ADDITIVE = re.compile(
    r".*\.sum|launch__grid_size|sm__cycles_elapsed\.max|gpu__time_duration\.(?:avg|max|sum)"
)
FIXED_COLUMNS = frozenset(
    ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context"]
) | frozenset(["Stream", "Block Size", "Grid Size", "Device", "CC", "thread Domain:Push/Pop_Range"])
HINT = "write it with: LC_ALL=C ncu --csv --page raw --log-file FILE ./app"


@dataclass(slots=True)
class _KernelLaunch:
    kernel: str
    values: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def read(source: ImportedFile) -> ImportedRun:
    """Return the kernels of an ncu CSV file, one Region each.

    Raises DocumentError that names the faulty line.
    """
    launches: dict[tuple[str, str], _KernelLaunch] = {}
    device = ""
    for line, row, header in _rows(source):
        kernel, number_ = row.get("Kernel Name", ""), row.get("ID", "")
        if not kernel:
            raise fault(source.path, line, "names no kernel", HINT)
        launch = launches.setdefault((row.get("Process ID", ""), number_), _KernelLaunch(kernel))
        if GRID.fullmatch(row.get("Grid Size", "")):
            blocks = math.prod(int(edge) for edge in re.findall(r"\d+", row["Grid Size"]))
            launch.values.setdefault("launch__grid_size", float(blocks))
        device = f"compute capability {row['CC']}" if row.get("CC") else device
        for cell in _cells(row, header):
            _put(launch, cell, source, line)
        if len(launch.values) + len(launch.left_out) > MAX_NAMES:
            raise fault(source.path, line, f"is beyond {MAX_NAMES} metrics of a launch")
    if not launches:
        raise fault(source.path, None, "holds no kernel launch", HINT)
    kernels: dict[str, list[_KernelLaunch]] = {}
    for launch in launches.values():
        kernels.setdefault(launch.kernel, []).append(launch)
    return ImportedRun(
        tool="ncu",
        sources=("ncu",),
        regions=tuple(_region(name, kernel_launches) for name, kernel_launches in kernels.items()),
        host_cpu=device,
        targets=(Target.CUDA,),
        warnings=("times are of kernels alone, serialised and with caches flushed by ncu",),
    )


def _rows(source: ImportedFile) -> Iterator[tuple[int, dict[str, str], dict[str, str]]]:
    """Yield (line number, row, unit by column) for the rows of the CSV table.

    Other output of the program is skipped.
    """
    lines = source.text.splitlines(keepends=True)
    start = next((i for i, text in enumerate(lines) if text.startswith('"ID",')), None)
    if start is None:
        raise fault(source.path, None, 'has no header that starts with "ID"', HINT)
    reader = csv.reader(io.StringIO("".join(lines[start:]), newline=""))
    header: list[str] = []
    units: dict[str, str] = {}
    try:
        for count, fields in enumerate(reader):
            line = start + reader.line_num
            if count > MAX_RECORDS:
                raise fault(source.path, line, f"is beyond {MAX_RECORDS} rows")
            if not header:
                header = fields
            elif not fields or fields[0].startswith("=="):
                continue
            elif fields[0] == "" and "Metric Name" not in header:
                units = dict(zip(header, fields, strict=False))
            elif len(fields) > len(header):
                raise fault(source.path, line, "has more fields than the header", HINT)
            elif not fields[0].isdigit():
                continue  # the program printed while ncu wrote
            else:
                yield line, dict(zip(header, fields, strict=False)), units
    except csv.Error as error:
        raise fault(source.path, start + reader.line_num, f"is not CSV: {error}", HINT) from None


def _cells(row: dict[str, str], units: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (metric, unit, text of the value) for the metrics in a row of ncu's table."""
    if "Metric Name" in row:
        if row["Metric Name"]:
            yield row["Metric Name"], row.get("Metric Unit", ""), row.get("Metric Value", "")
        return
    for name, text in row.items():
        if name not in FIXED_COLUMNS and text:
            yield name, units.get(name, ""), text


def _put(
    launch: _KernelLaunch, cell: tuple[str, str, str], source: ImportedFile, line: int
) -> None:
    name, unit, text = cell
    factor, kind = _unit(unit)
    name = DISPLAYED.get((name, kind), name)
    text = text.strip()
    if not NUMBER.fullmatch(text):
        if OTHER_LOCALE.fullmatch(text):
            raise fault(
                source.path, line, f"{name}: {text!r} is written in another locale's way", HINT
            )
        launch.left_out.setdefault(name, f"is {text[:40]!r}")
        return
    value = (count_of(text.replace(",", "")) or 0.0) * factor
    rate = name.removesuffix(".per_second")
    if rate != name and ADDITIVE.fullmatch(rate):
        launch.values[name] = value
    elif ADDITIVE.fullmatch(name):
        launch.values[DURATION if name.startswith("gpu__time_duration") else name] = value
    else:
        launch.left_out.setdefault(name, "no total that can be summed over launches")


def _unit(unit: str) -> tuple[float, str]:
    """Return the factor from a unit to seconds or counts, and the unit's kind.

    The kind is time, rate, amount or other.
    """
    unit = unit.strip()
    if unit.lower() in SECONDS:
        return SECONDS[unit.lower()], "time"
    amount, slash, per = unit.partition("/")
    match = AMOUNT.fullmatch(amount)
    if match and slash and per in SECONDS:
        return PREFIX[match.group(1)] / SECONDS[per], "rate"
    if (match and not slash) or not unit:
        return (PREFIX[match.group(1)] if match else 1.0), "amount"
    return 1.0, "other"


def _region(kernel: str, launches: list[_KernelLaunch]) -> Region:
    metrics: dict[str, Metric] = {"launches": Metric(float(len(launches)))}
    problems: dict[str, str] = {}
    for launch in launches:
        seconds = launch.values.get(DURATION)
        for name, value in list(launch.values.items()):
            summed = name.removesuffix(".per_second")
            if summed != name and seconds is not None:
                launch.values.setdefault(summed, value * seconds)
        problems |= launch.left_out
    for name in {name for launch in launches for name in launch.values}:
        values = [launch.values[name] for launch in launches if name in launch.values]
        if len(values) < len(launches):
            problems[name] = f"given for {len(values)} of {len(launches)} launches only"
        elif not name.endswith(".per_second"):
            metrics[name] = Metric(sum(values))
    _mean_rates(launches, metrics)
    total = metrics.get(DURATION)
    return Region(
        path=(kernel,),
        metrics=metrics,
        problems={k: v for k, v in problems.items() if k not in metrics},
        runtime_s=total.value if total and total.value > 0 else None,
        runtime_note=DURATION if total else f"the file has no {DURATION}",
    )


def _mean_rates(launches: list[_KernelLaunch], metrics: dict[str, Metric]) -> None:
    """Add the mean rate over all launches to ``metrics``, for each rate with a known total."""
    total = metrics.get(DURATION)
    if total is None or total.value <= 0:
        return
    for name in {n for launch in launches for n in launch.values if n.endswith(".per_second")}:
        summed = metrics.get(name.removesuffix(".per_second"))
        if summed is not None:
            metrics[name] = Metric(summed.value / total.value)


READERS = (
    FileReader("ncu", PROFILE, (
        FileKind("ncu --csv", "ncu", line='"ID",'),
    ), whole_runs(read)),
)  # fmt: skip
