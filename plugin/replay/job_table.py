"""Past jobs as a table (CSV) with their times by platform.

The first line names the columns. ``submit_s`` and at least one ``seconds@PLATFORM`` are needed;
``user``, ``partition``, ``cores``, ``gpus``, ``nodes``, ``limit_s`` and ``predicted@PLATFORM`` may
follow. An empty cell is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from berth.pilot.errors import DocumentError
from berth.plugin.replay.tables import read_table
from berth.policies.replay.columns import Floats
from berth.policies.replay.trace import Trace, trace_of

TRUE, PREDICTED = "seconds@", "predicted@"
_PLAIN = ("submit_s", "user", "partition", "cores", "gpus", "nodes", "limit_s")


@dataclass(frozen=True)
class JobTable:
    """A trace with true times by platform, and what was predicted."""

    trace: Trace
    """Its own run times are not known: they follow from where a job is taken to have run."""
    predicted: Mapping[str, Floats]
    """By platform [jobs]; the true time where the table has no prediction of a platform."""


def begins_job_table(line: str) -> bool:
    """Whether a first line is that of such a table."""
    names = [name.strip() for name in line.removeprefix("\ufeff").split(",")]
    return "submit_s" in names and any(name.startswith(TRUE) for name in names)


def read_job_table(path: Path, lines: Sequence[str] | None = None) -> JobTable:
    """Read a file. Raises DocumentError naming the line and the column."""
    header, rows = read_table(path, lines)
    _check(header, path)
    if not rows:
        raise DocumentError(path, "has no jobs")
    columns = {
        name: [(row.number, row.cells[index]) for row in rows] for index, name in enumerate(header)
    }
    return _table(columns, path)


def _table(columns: Mapping[str, Sequence[tuple[int, str]]], path: Path) -> JobTable:
    def numbers(name: str, least: float, default: float) -> Floats:
        found = columns.get(name)
        if found is None:
            return np.full(len(columns["submit_s"]), default)
        return np.array(
            [_number(text, least, default, path, f"line {at}: {name}") for at, text in found]
        )

    def words(name: str) -> tuple[np.ndarray, tuple[str, ...]]:
        texts = [text for _, text in columns[name]] if name in columns else [""]
        names = tuple(dict.fromkeys(texts))
        place = {text: i for i, text in enumerate(names)}
        count = len(columns["submit_s"])
        return np.array([place[t] for t in texts] if name in columns else [0] * count), names

    submit = numbers("submit_s", -math.inf, math.nan)
    bad = np.flatnonzero(np.isnan(submit))
    if len(bad):
        raise DocumentError(
            path, "is empty", key=f"line {columns['submit_s'][bad[0]][0]}: submit_s"
        )
    order = np.argsort(submit, kind="stable")
    true = {n[len(TRUE) :]: numbers(n, 0.0, math.nan)[order] for n in columns if n.startswith(TRUE)}
    predicted = {
        n[len(PREDICTED) :]: numbers(n, 0.0, math.nan)[order]
        for n in columns
        if n.startswith(PREDICTED)
    }
    user, users = words("user")
    queue, queues = words("partition")
    made = trace_of(
        submit,
        np.full(len(submit), np.nan),
        numbers("cores", 0, 1).astype(np.int64),
        limit_s=numbers("limit_s", 0.0, math.nan),
        nodes=numbers("nodes", 0, 0).astype(np.int64),
        gpus=numbers("gpus", 0, 0).astype(np.int64),
        user=user,
        queue=queue,
        queues=queues,
    )
    return JobTable(replace(made, users=users, runtime_on=true), {**true, **predicted})


def _number(text: str, least: float, default: float, path: Path, where: str) -> float:
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (least <= value < math.inf):
        raise DocumentError(path, f"{text[:40]!r} is no such number", key=where)
    return value


def _check(header: Sequence[str], path: Path) -> None:
    if "submit_s" not in header or not any(name.startswith(TRUE) for name in header):
        raise DocumentError(
            path,
            "is no table of jobs",
            key="line 1",
            hint=f"it needs the columns submit_s and {TRUE}PLATFORM, separated by commas",
        )
    for name in header:
        known = name in _PLAIN or (name.startswith((TRUE, PREDICTED)) and not name.endswith("@"))
        if not known or header.count(name) > 1:
            what = "is there twice" if header.count(name) > 1 else "is not known"
            raise DocumentError(
                path, f"column {name!r} {what}", key="line 1", hint=f"known: {', '.join(_PLAIN)}, "
                f"{TRUE}PLATFORM, {PREDICTED}PLATFORM",
            )  # fmt: skip
