"""Slurm's ``key=value`` records (``scontrol -o show …``), the notations and the states inside them.

Versions differ in which keys there are: a missing one is a default here, never an error. What
cannot be read at all raises SchedulerError that shows it.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from berth.pilot.errors import SchedulerError
from berth.pilot.units import whole_number

_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:]*)=")
_MEMORY = re.compile(r"(?:^|,)mem=(\d{1,12}(?:\.\d{1,9})?)([KMGTP]?)(?=,|$)", re.ASCII)
_GPU_MEMORY = re.compile(r"(?:^|,)gres/gpumem=(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)(?=,|$)", re.ASCII)
_GPU_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_POWERS = {"K": 10, "": 20, "M": 20, "G": 30, "T": 40, "P": 50}
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d{1,9})?")
_GRES = re.compile(r"(?P<name>[^:(,=]+)(?::(?P<type>[^:(,=]+))?[:=](?P<count>\d+)(?P<unit>[KMG]?)")

Record = Mapping[str, str]


def records(text: str, first_key: str) -> Iterator[Record]:
    """Yield one mapping a line; the first value of a key counts. Raises SchedulerError on odd
    lines."""
    for line in text.splitlines():
        if not line.strip() or line.startswith(("No ", "Slurm")):
            continue
        keys = list(_KEY.finditer(line))
        if not keys or keys[0].group(1) != first_key:
            raise SchedulerError(f"Slurm answered something unreadable: {line.strip()[:80]!r}")
        record: dict[str, str] = {}
        for match, following in zip(keys, [*keys[1:], None], strict=True):
            end = len(line) if following is None else following.start()
            record.setdefault(match.group(1), line[match.end() : end].strip())
        yield record


def whole(record: Record, key: str, default: int = 0) -> int:
    """Return a count; ``default`` where the key is absent or says ``N/A``."""
    number = count(record.get(key, ""))
    return default if number is None else number


def count(text: str) -> int | None:
    """Return a number of things, bytes or seconds; None for anything else, and from 16 digits
    on."""
    return whole_number(text, 10**15 - 1)


@dataclass
class StepPeaks:
    """The most that a job's steps held: of a node's host memory, and of a GPU's; 0: not seen."""

    host_bytes: int = 0
    gpu_bytes: int = 0

    def add(self, largest_bytes: int, nodes: str, record: Record) -> None:
        """Take a step's peaks where they are the largest. MaxRSS and TRESUsageInMax are those of
        the largest task; a node, or a GPU of ``AllocTRES``, held so many tasks.

        ``largest_bytes``: MaxRSS; ``nodes``: NNodes. Memory of GPUs is only there where it is
        accounted (AccountingStorageTRES=gres/gpumem).
        """
        tasks = max(count(record.get("NTasks", "")) or 1, 1)
        held = largest_bytes * -(-tasks // min(max(count(nodes) or 1, 1), tasks))
        self.host_bytes = max(self.host_bytes, held)
        match = _GPU_MEMORY.search(record.get("TRESUsageInMax", ""))
        peak = 0 if match is None else int(float(match[1]) * 2.0 ** _GPU_POWERS[match[2]])
        if 0 < peak < 2**60:
            gpus = max(gpus_in(record.get("AllocTRES", "")) or 1, 1)
            self.gpu_bytes = max(self.gpu_bytes, peak * -(-tasks // min(gpus, tasks)))


def names(record: Record, key: str) -> tuple[str, ...]:
    """Return the members of a comma list; none for ``(null)`` and the like."""
    text = record.get(key, "")
    if text in ("", "(null)", "N/A", "NONE", "None"):
        return ()
    return tuple(dict.fromkeys(part for part in text.split(",") if part))


def allowed(record: Record, key: str) -> tuple[str, ...] | None:
    """Return the members of an ``Allow`` list; None: everybody is allowed."""
    return None if record.get(key, "ALL") in ("ALL", "(null)", "N/A") else names(record, key)


def duration_s(text: str | None) -> float | None:
    """Return ``2-00:00:00``, ``12:00:00`` or ``30:00`` in seconds; None for UNLIMITED, NONE or
    absent."""
    match = _CLOCK.fullmatch(text or "")
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds


def moment_s(text: str, *, utc: bool) -> float | None:
    """Return ``2026-11-21T19:00:00`` as Unix time, by UTC or this machine's clock; None: it is no
    time."""
    try:
        parsed = time.strptime(text, "%Y-%m-%dT%H:%M:%S")
        return float(calendar.timegm(parsed) if utc else time.mktime(parsed))
    except (ValueError, OverflowError):
        return None


def gres(text: str | None) -> dict[str, int]:
    """Count GPUs by type: ``gpu:h200:4(S:0-1),shard:8`` gives ``{"gpu:h200": 4}``; no type:
    ``gpu``."""
    counts: dict[str, int] = {}
    # Device lists in brackets hold commas: (IDX:0-1,3).
    for part in re.sub(r"\([^)]*\)?", "", text or "").split(","):
        match = _GRES.match(part.strip())
        if match is None or match["name"] != "gpu" or match["unit"] or len(match["count"]) > 6:
            continue
        name = f"gpu:{match['type']}" if match["type"] else "gpu"
        counts[name] = counts.get(name, 0) + int(match["count"])
    return counts


def gpus_in(tres: str) -> int | None:
    """Return how many GPUs ``cpu=4,gres/gpu=2,gres/gpu:h200=2,node=1`` names.

    None where it names none: there are none, or the site does not account for them
    (AccountingStorageTRES).
    """
    counts = gres(tres.replace("gres/", ""))
    return counts.pop("gpu", None) or sum(counts.values()) or None


def memory_in(tres: str) -> int | None:
    """Return the bytes that ``cpu=4,mem=7.50G,node=2`` names (without a unit MiB); None: it names
    none."""
    match = _MEMORY.search(tres)
    return None if match is None else int(float(match[1]) * 2.0 ** _POWERS[match[2]])


_STATES = {
    "PENDING": "pending",
    "REQUEUED": "pending",
    "CONFIGURING": "pending",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "COMPLETED": "completed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out-of-memory",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
    "PREEMPTED": "cancelled",
}
_TURN = frozenset(("None", "Priority", "Resources", "", "Nodes required for job are DOWN"))
"""Reasons of jobs that wait for their turn or for room, up to the first comma. The last goes on
``DRAINED or reserved for jobs in higher priority partitions``: so wait jobs of several partitions.
"""
_RESERVED = "Reserved for maintenance"
"""``ReqNodeNotAvail, ...``: its nodes will be reserved before it would have ended."""

_CLOSED = {
    "DOWN": "takes jobs and starts none",
    "DRAIN": "takes no new jobs",
    "INACTIVE": "takes no jobs and starts none",
}
"""States of a partition beside UP, and what they mean (slurm.conf, ``State``)."""


def closed_as(state: str) -> str | None:
    """Return ``INACTIVE: takes no jobs and starts none`` for a partition's state; None: it is
    up."""
    if state == "UP":
        return None
    meaning = _CLOSED.get(state)
    return f"{state}: {meaning}" if meaning else state


def state_of(text: str) -> str:
    """Return Berth's word for a job's state: ``CANCELLED by 1000`` is ``cancelled``."""
    return _STATES.get(text.partition(" ")[0].rstrip("+"), "unknown")


def waits_for_room(reason: str) -> bool:
    """Return whether a pending job waits for its turn or for room, and for nothing else."""
    words = reason.strip("()").replace("_", " ")
    return words.partition(",")[0] in _TURN or words.endswith(_RESERVED)
