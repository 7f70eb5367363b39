"""Peak memory of the tasks of six nf-core workflows (Sizey, CLUSTER 2024).

The repository names no licence: the files are read where they are and copied nowhere. Get them by
``git clone https://github.com/dos-group/sizey`` and put its ``data/`` as ``sizey/`` into the folder
of data sets. Tasks without a recorded peak or preset are left out.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

from lab.datasets import DataSet, locate

_SHA256 = {
    "mag": "190870d99b59e40ff6a4b2809ed53998ac89e5353f26d76c517048b499f2de59",
    "chipseq": "31f9c00f282024c47e3b491a4615383957aa939f9f7bf39fd4fa3d1c230142b4",
    "eager": "a9baa24621c26029b19a0354b20d825127ec52214638f1887e206e41b2a80581",
    "rnaseq": "c20eeb720072a35d4be25e75155128302d94952720a82e46f73435051e4c2329",
    "iwd": "dec839e4bca060100196a0b62621a66c3f30e89f95527e7f07411a1df8a9bfd5",
    "methylseq": "2faef5ee652f8995c6d44e81047781b8891fea2f74177dce9c871c3860e8b5a9",
}
DEVELOPED_ON = ("mag", "chipseq", "eager")
REPORTED = ("rnaseq", "iwd", "methylseq")
"""Looked at once, when everything was chosen."""
_MS = 1e-3


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One task as it ran. Times are Unix seconds."""

    task: str
    sample: str
    """The workflow's tag."""
    start_s: float
    end_s: float
    runtime_s: float
    preset_bytes: float
    peak_bytes: float


def data_set(workflow: str) -> DataSet:
    """The file of a workflow."""
    return DataSet(
        path=f"sizey/trace_{workflow}.csv",
        title=f"Sizey's trace of {workflow}",
        source="https://github.com/dos-group/sizey (its folder data/)",
        licence="none named: read in place",
        sha256=_SHA256[workflow],
    )


def task_runs(workflow: str) -> list[TaskRun]:
    """In the file's order. Raises ToolMissing or DocumentError (see ``locate``)."""
    with locate(data_set(workflow)).open(newline="", encoding="utf-8") as stream:
        rows = [_run(row) for row in csv.DictReader(stream)]
    return [row for row in rows if row.peak_bytes > 0 and row.preset_bytes > 0]


def _run(row: dict[str, str]) -> TaskRun:
    return TaskRun(
        row["process"],
        row["tag"],
        _number(row["start"]) * _MS,
        _number(row["complete"]) * _MS,
        max(_number(row["realtime"]) * _MS, 1e-3),
        _number(row["memory"]),
        _number(row["peak_rss"]),
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
