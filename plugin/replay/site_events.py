"""What happens to nodes during a replay: failures and reservations, from tables or the scheduler.

Tables are CSV with the header ``nodes,begin,end``. ``nodes`` is ``KIND[0-3]``, or ``KIND`` for all;
times are ``2026-11-03T08:00:00``, Unix seconds, or ``+12h`` after the first submission.
"""

from __future__ import annotations

import calendar
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from berth.pilot.errors import BerthError, DocumentError, UsageError
from berth.pilot.units import parse_duration_s
from berth.plugin.replay.tables import read_table
from berth.plugin.scheduler import ClusterFacts
from berth.plugin.scheduler.facts import ReservationFacts
from berth.plugin.scheduler.states import nodes_of
from berth.policies.replay.changes import nodes_in
from berth.policies.replay.cluster import Cluster, Failure, Reservation
from berth.policies.values import Candidate

HEADER = ("nodes", "begin", "end")
_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


def read_failures(
    file: Path, cluster: Cluster, first_s: float, *, utc: bool
) -> tuple[Failure, ...]:
    """Nodes that break. Raises DocumentError naming the line."""
    return tuple(
        Failure(kind, node, begin_s, end_s)
        for kind, nodes, begin_s, end_s in _rows(file, cluster, first_s, utc=utc)
        for node in nodes
    )


def read_reservations(
    file: Path, cluster: Cluster, first_s: float, *, utc: bool
) -> tuple[Reservation, ...]:
    """Nodes that the site keeps from jobs. Raises DocumentError naming the line."""
    rows = _rows(file, cluster, first_s, utc=utc)
    return tuple(Reservation(*row) for row in rows)


def present_reservations(
    found: Sequence[ReservationFacts], facts: ClusterFacts, candidates: Sequence[Candidate]
) -> tuple[Reservation, ...]:
    """Those of the scheduler, on the nodes of the candidates, which are counted by their names."""
    made = []
    for one in found:
        for candidate in candidates:
            names = [node.name for node in nodes_of(candidate, facts)][: candidate.nodes]
            held = tuple(n for n, name in enumerate(names) if name in one.nodes)
            if held:
                made.append(Reservation(candidate.name, held, one.begin_s, one.end_s))
    return tuple(made)


def _rows(
    file: Path, cluster: Cluster, first_s: float, *, utc: bool
) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
    header, rows = read_table(file)
    if header != HEADER:
        raise DocumentError(
            file, "has another header than a table of nodes", key="line 1",
            hint=f"begin it with {','.join(HEADER)}; nodes with commas in quotation marks",
        )  # fmt: skip
    for row in rows:
        try:
            kind, nodes = nodes_in(cluster, row.cells[0])
            begin_s, end_s = (_moment(cell, first_s, utc=utc) for cell in row.cells[1:])
            if not end_s > begin_s:
                raise UsageError("it ends before it begins")
        except BerthError as error:
            raise DocumentError(file, error.message, key=f"line {row.number}") from None
        yield kind, nodes, begin_s, end_s


def _moment(text: str, first_s: float, *, utc: bool) -> float:
    try:
        if text.startswith("+"):
            rest = text[1:].strip()
            after_s = float(rest) if _is_number(rest) else parse_duration_s(rest)
            return first_s + after_s
        if _is_number(text):
            return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time") from None
    for format_ in _FORMATS:
        try:
            parsed = time.strptime(text, format_)
        except ValueError:
            continue
        return float(_unix(parsed, utc=utc))
    raise UsageError(f"{text!r} is no time")


def _unix(parsed: time.struct_time, *, utc: bool) -> float:
    return calendar.timegm(parsed) if utc else time.mktime(parsed)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
