"""Past jobs as a table (CSV) with their times by platform.

The first line names the columns. ``submit_s`` and at least one ``seconds@PLATFORM`` are needed;
``user``, ``partition``, ``cores``, ``gpus``, ``nodes``, ``limit_s`` and ``predicted@PLATFORM`` may
follow. An empty cell is not known. A line that cannot be read is left out, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from berth.pilot.errors import DocumentError
from berth.plugin.history.reading import Read, Unreadable
from berth.plugin.replay.tables import read_table
from berth.policies.replay.trace import Floats, Trace, trace_of

TRUE, PREDICTED = "seconds@", "predicted@"
_WORDS: tuple[str, ...] = ("user", "partition")
"""Columns that hold no numbers."""
_DEFAULTS = {"cores": 1.0, "nodes": 0.0, "gpus": 0.0}
"""Of an empty cell, and where there is no such column."""
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


def read_job_table(
    path: Path, lines: Sequence[str] | None = None, read: Read | None = None
) -> JobTable:
    """Read a file. Lines that cannot be read are left out and counted in ``read``.

    Raises DocumentError where the first line is that of no such table, or no job is left.
    """
    read = Read() if read is None else read
    header, rows = read_table(path, lines, read)
    _check(header, path)
    numeric = [(at, name) for at, name in enumerate(header) if name not in _WORDS]
    numbers, jobs = [], []
    for row in rows:
        try:
            numbers.append([_number(name, row.cells[at]) for at, name in numeric])
        except Unreadable as error:
            read.refuse(row.number, row.text, error)
        else:
            jobs.append(row)
    if not jobs:
        first = f" that can be read, first {read.examples[0]}" if read.examples else ""
        raise DocumentError(path, f"has no jobs{first}")
    columns = dict(zip([name for _, name in numeric], np.array(numbers).T, strict=True))
    words = {
        name: [row.cells[at] for row in jobs] for at, name in enumerate(header) if name in _WORDS
    }
    return _table(columns, words)


def _table(columns: Mapping[str, Floats], words: Mapping[str, Sequence[str]]) -> JobTable:
    submit = columns["submit_s"]
    order = np.argsort(submit, kind="stable")

    def by_platform(prefix: str) -> dict[str, Floats]:
        return {
            name.removeprefix(prefix): column[order]
            for name, column in columns.items()
            if name.startswith(prefix)
        }

    def counts(name: str) -> np.ndarray:
        return columns.get(name, np.full(len(submit), _DEFAULTS[name])).astype(np.int64)

    def named(name: str) -> tuple[np.ndarray, tuple[str, ...]]:
        texts = words.get(name, [""] * len(submit))
        names = tuple(dict.fromkeys(texts))
        place = {text: i for i, text in enumerate(names)}
        return np.array([place[text] for text in texts]), names

    true, predicted = by_platform(TRUE), by_platform(PREDICTED)
    user, users = named("user")
    queue, queues = named("partition")
    made = trace_of(
        submit,
        np.full(len(submit), np.nan),
        counts("cores"),
        limit_s=columns.get("limit_s", np.full(len(submit), math.nan)),
        nodes=counts("nodes"),
        gpus=counts("gpus"),
        user=user,
        queue=queue,
        queues=queues,
    )
    return JobTable(replace(made, users=users, runtime_on=true), {**true, **predicted})


def _number(name: str, text: str) -> float:
    """Of one cell. Raises Unreadable."""
    if not text:
        if name == "submit_s":
            raise Unreadable("submit_s is empty")
        return _DEFAULTS.get(name, math.nan)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    least = -math.inf if name == "submit_s" else 0.0
    if not (least <= value < math.inf):
        raise Unreadable(f"{name} is no such number")
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
