"""Recognise which tool wrote a file and read it with that tool's importer (:func:`read_file`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.importers import (
    caliper,
    frame,
    likwid,
    ncu,
    nsys,
    perf_stat,
    rocprof,
    valgrind_out,
)
from berth.pilot.importers.foreign import Purpose, ends_of, expect, expected, in_text
from berth.pilot.importers.reading import CallTree, ImportedFile, ImportedRun, load
from berth.pilot.importers.tree import reading

TREE_SOURCES = ("papi", "caliper", "rajaperf")

FORMATS = {
    "caliper": "Caliper's .cali",
    "caliper-json": "Caliper's json and json-split",
    "frame-json": "a Hatchet GraphFrame or Thicket by its to_json()",
    "frame-csv": "a Hatchet dataframe as CSV",
    "frame-parquet": "a Hatchet dataframe as Parquet",
    "hpctoolkit": "an HPCToolkit database (a folder; needs Hatchet)",
    "likwid": "likwid-perfctr -O",
    "perf": "perf stat -x,",
    "perf-json": "perf stat -j",
    "perf-text": "perf stat's printed table",
    "ncu": "ncu --csv",
    "nsys": "nsys stats --report cuda_gpu_kern_sum --format csv",
    "rocprof": "rocprofv3 --kernel-trace --output-format csv",
    "valgrind": "cachegrind.out and callgrind.out",
}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Facts about a measurement file that the user states because the file lacks them."""

    time_factor: float | None = None
    """Seconds per unit of times whose unit the file does not state."""
    processor: str | None = None
    """Processor family of perf's raw event codes: intel, amd, arm or power."""


def read_file(
    path: Path, kind: str, options: ImportOptions
) -> tuple[ImportedFile, list[ImportedRun]]:
    """Return a measurement file's content and the runs that it holds.

    ``kind`` is a key of ``FORMATS`` or ``auto``. Raises DocumentError, UsageError.
    """
    if path.is_dir():
        return _read_folder(path, kind, options)
    source = load(path)
    kind = detect(source) if kind == "auto" else kind
    if kind in _TEXT:
        return source, [_with_family(_TEXT[kind](source), options)]
    if kind not in _TREES:
        raise UsageError(f"{path}: {kind} is a folder, this is a file")
    tool = "caliper" if kind.startswith("caliper") else "hatchet"
    return source, _readings(_TREES[kind](source), path, tool, options)


def detect(source: ImportedFile) -> str:
    """Return the name of a file's format, a key of ``FORMATS``.

    Raises DocumentError for an unknown format, and for files that no importer reads; it says what
    the file is.
    """
    text = ends_of(source.raw)
    if not text.head.strip():
        raise DocumentError(source.path, "is empty")
    found = list(in_text(text, source.path.name))
    kind = expected(found, source.path, Purpose.PROFILE)
    if kind is None:
        raise DocumentError(
            source.path,
            "is of no format that Berth knows",
            hint=f"name it with --format, one of {', '.join(FORMATS)}",
        )
    return kind.reader


def _json(source: ImportedFile) -> Any:
    try:
        return json.loads(source.text)
    except RecursionError:
        raise DocumentError(source.path, "is nested too deeply") from None
    except ValueError as error:
        raise DocumentError(source.path, f"is not JSON: {error}") from None


def _read_caliper_json(source: ImportedFile) -> list[CallTree]:
    data = _json(source)
    if isinstance(data, list):
        return caliper.read_plain(source, data)
    if isinstance(data, dict):
        return caliper.read_split(source, data)
    raise DocumentError(source.path, "is neither a list of records nor json-split")


def _read_frame_json(source: ImportedFile) -> list[CallTree]:
    data = _json(source)
    if not isinstance(data, dict):
        raise DocumentError(source.path, "is not what to_json() of a frame writes")
    return frame.read_json(source, data)


def _read_folder(
    path: Path, kind: str, options: ImportOptions
) -> tuple[ImportedFile, list[ImportedRun]]:
    if kind == "auto":
        expect(path, Purpose.PROFILE)
    marks = [name for name in ("experiment.xml", "meta.db") if (path / name).is_file()]
    if kind not in ("auto", "hpctoolkit") or not marks:
        raise DocumentError(
            path, "is a folder, and no HPCToolkit database (no experiment.xml, no meta.db)"
        )
    digest = load(path / marks[0]).sha256
    tables = frame.read_folder(path)
    return ImportedFile(path, b"", digest), _readings(tables, path, "hpctoolkit", options)


def _readings(
    tables: list[CallTree], path: Path, tool: str, options: ImportOptions
) -> list[ImportedRun]:
    readings = [
        reading(table, path, tool=tool, sources=TREE_SOURCES, time_factor=options.time_factor)
        for table in tables
    ]
    if not any(run.regions for run in readings):
        raise DocumentError(path, "holds no region")
    return readings


def _with_family(run: ImportedRun, options: ImportOptions) -> ImportedRun:
    if run.tool != "perf" or options.processor is None:
        return run
    return replace(run, sources=(*run.sources, f"perf:{options.processor}"))


_TEXT: dict[str, Callable[[ImportedFile], ImportedRun]] = {
    "likwid": likwid.read,
    "perf": perf_stat.read_text,
    "perf-json": perf_stat.read_json,
    "perf-text": perf_stat.read_printed,
    "ncu": ncu.read,
    "nsys": nsys.read,
    "rocprof": rocprof.read,
    "valgrind": valgrind_out.read,
}
_TREES: dict[str, Callable[[ImportedFile], list[CallTree]]] = {
    "caliper": caliper.read,
    "caliper-json": _read_caliper_json,
    "frame-json": _read_frame_json,
    "frame-csv": lambda source: [*frame.read_csv(source)],
    "frame-parquet": lambda source: [*frame.read_parquet(source)],
}
