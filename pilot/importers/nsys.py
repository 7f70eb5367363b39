"""Read nsys's kernel summary as CSV (``cuda_gpu_kern_sum``): time and launches of each kernel."""

from __future__ import annotations

import csv
import io

from berth.pilot.importers.reading import (
    MAX_REGIONS,
    PROFILE,
    ImportedFile,
    ImportedRun,
    Metric,
    Region,
    fault,
    number,
    whole_runs,
)
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.profile import Target

HEADER = "Time (%),Total Time (ns),Instances,"
HINT = "write it with: nsys stats --report cuda_gpu_kern_sum --format csv FILE.nsys-rep"


def read(source: ImportedFile) -> ImportedRun:
    """Return the kernels of an nsys summary, one Region each; rows with the same name are added.

    Raises DocumentError that names the faulty line.
    """
    lines = source.text.splitlines(keepends=True)
    start = next((i for i, text in enumerate(lines) if text.startswith(HEADER)), None)
    if start is None:
        raise fault(source.path, None, "holds no kernel summary of nsys", HINT)
    reader = csv.DictReader(io.StringIO("".join(lines[start:]), newline=""))
    by_kernel: dict[str, tuple[float, float]] = {}
    try:
        for row in reader:
            line = start + reader.line_num
            name = row.get("Name") or ""
            seconds = number(row.get("Total Time (ns)") or "")
            launches = number(row.get("Instances") or "")
            if not name or seconds is None or launches is None or min(seconds, launches) <= 0:
                raise fault(source.path, line, "is not a kernel with a time and instances", HINT)
            before = by_kernel.get(name, (0.0, 0.0))
            by_kernel[name] = (before[0] + seconds * 1e-9, before[1] + launches)
            if len(by_kernel) > MAX_REGIONS:
                raise fault(source.path, line, f"is beyond {MAX_REGIONS} kernels")
    except csv.Error as error:
        raise fault(source.path, start + reader.line_num, f"is not CSV: {error}", HINT) from None
    if not by_kernel:
        raise fault(source.path, None, "names no kernel", HINT)
    regions = tuple(
        Region((name,), {"Instances": Metric(launches)}, {}, seconds, "time of its kernels")
        for name, (seconds, launches) in by_kernel.items()
    )
    return ImportedRun("nsys", ("nsys",), regions, targets=(Target.CUDA,))


READERS = (
    FileReader("nsys", PROFILE, (
        FileKind("nsys stats --report cuda_gpu_kern_sum", "nsys",
                 line=r"Time \(%\),Total Time \(ns\),Instances,"),
    ), whole_runs(read)),
)  # fmt: skip
