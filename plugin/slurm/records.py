"""Parses Slurm's ``key=value`` records (``scontrol -o show …``), its notations and its job states.

Versions of Slurm write different keys: a missing key becomes a default value and is no error.
Unreadable text raises SchedulerError, which quotes the text.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator, Mapping

from berth.pilot.errors import SchedulerError
from berth.pilot.units import whole_number

_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:]*)=")
_MEMORY = re.compile(r"(?:^|,)mem=(\d{1,12}(?:\.\d{1,9})?)([KMGTP]?)(?=,|$)", re.ASCII)
_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,9})?)([KMGTP]?)B?", re.ASCII)
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d{1,9})?")
_GRES = re.compile(r"(?P<name>[^:(,=]+)(?::(?P<type>[^:(,=]+))?[:=](?P<count>\d+)(?P<unit>[KMG]?)")

_LONGEST_TYPE = 64

Record = Mapping[str, str]


def records(text: str, first_key: str) -> Iterator[Record]:
    """Yield one mapping per line; where a key repeats, its first value is used.

    Raises SchedulerError for a line that does not begin with ``first_key``.
    """
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
    """Return the whole number under ``key``; ``default`` where the key is absent or says
    ``N/A``.
    """
    number = count(record.get(key, ""))
    return default if number is None else number


def count(text: str) -> int | None:
    """Return ``text`` as a whole number; None where ``text`` is no number or has 16 digits or
    more."""
    return whole_number(text, 10**15 - 1)


def names(record: Record, key: str) -> tuple[str, ...]:
    """Return the members of a comma-separated list; empty for ``(null)``, ``N/A`` and ``NONE``."""
    text = record.get(key, "")
    if text in ("", "(null)", "N/A", "NONE", "None"):
        return ()
    return tuple(dict.fromkeys(part for part in text.split(",") if part))


def allowed(record: Record, key: str) -> tuple[str, ...] | None:
    """Return the members of an ``Allow…`` list of a partition; None: everybody is allowed."""
    return None if record.get(key, "ALL") in ("ALL", "(null)", "N/A") else names(record, key)


def duration_s(text: str | None) -> float | None:
    """Return ``2-00:00:00``, ``12:00:00`` or ``30:00`` in seconds; None for UNLIMITED, NONE or no
    text.
    """
    match = _CLOCK.fullmatch(text or "")
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds


def moment_s(text: str, *, utc: bool) -> float | None:
    """Return ``2026-11-21T19:00:00``, in UTC or local time, as Unix time; None where ``text`` is no
    time. Unix seconds, which sacct writes with SLURM_TIME_FORMAT=%s, are read, too.
    """
    seconds = whole_number(text, 10**11 - 1)
    if seconds is not None:
        return float(seconds)
    try:
        parsed = time.strptime(text, "%Y-%m-%dT%H:%M:%S")
        return float(calendar.timegm(parsed) if utc else time.mktime(parsed))
    except (ValueError, OverflowError):
        return None


def gres(text: str | None) -> dict[str, int]:
    """Count GPUs by type: ``gpu:h200:4(S:0-1),shard:8`` gives ``{"gpu:h200": 4}``; GPUs without a
    type count as ``gpu``.
    """
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
    """Return the number of GPUs in a TRES text such as ``cpu=4,gres/gpu=2,gres/gpu:h200=2,node=1``.

    None where the text lists no GPU: the job has none, or the site does not account for GPUs
    (AccountingStorageTRES).
    """
    if "gpu" not in tres:
        return None
    counts = gres(tres.replace("gres/", ""))
    return counts.pop("gpu", None) or sum(counts.values()) or None


def gpu_type_in(tres: str) -> str:
    """Return the type of the GPUs in a TRES text: ``h200`` for ``gres/gpu=2,gres/gpu:h200=2``.

    The text is empty where no type or several are recorded.
    """
    if "gres/gpu:" not in tres:
        return ""
    types = [name.partition(":")[2] for name in gres(tres.replace("gres/", "")) if ":" in name]
    return types[0][:_LONGEST_TYPE] if len(types) == 1 else ""


def memory_in(tres: str) -> int | None:
    """Return the bytes of ``mem=`` in ``cpu=4,mem=7.50G,node=2`` (MiB without a unit); None: no
    ``mem=``.
    """
    match = _MEMORY.search(tres)
    return None if match is None else bytes_of(match[1] + (match[2] or "M"))


def bytes_of(text: str) -> int | None:
    """Return ``4096``, ``12000K`` or ``1.5G`` in bytes; None where ``text`` is no such size."""
    match = _SIZE.fullmatch(text)
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
NODES_NOT_FREE = "Nodes required for job are DOWN"
"""Start of the reason that continues ``, DRAINED or reserved for jobs in higher priority
partitions``. Slurm gives it to jobs that name several partitions, also where the nodes are only
in use.
"""
_TURN = frozenset(("None", "Priority", "Resources", "", NODES_NOT_FREE))
"""Reasons (up to the first comma) of pending jobs that wait only for their turn or for free
resources.
"""
_RESERVED = "Reserved for maintenance"
"""End of the reason ``ReqNodeNotAvail, ...`` where the job's nodes are reserved before it would
end.
"""

_CLOSED = {
    "DOWN": "takes jobs and starts none",
    "DRAIN": "takes no new jobs",
    "INACTIVE": "takes no jobs and starts none",
}
"""Partition states other than UP, with their meaning (slurm.conf, ``State``)."""


def closed_as(state: str) -> str | None:
    """Return a closed partition's state with its meaning, such as ``INACTIVE: takes no jobs and
    starts none``; None: the partition is up.
    """
    if state == "UP":
        return None
    meaning = _CLOSED.get(state)
    return f"{state}: {meaning}" if meaning else state


def state_of(text: str) -> str:
    """Return Berth's name for a Slurm job state, for example ``cancelled`` for ``CANCELLED by
    1000``.
    """
    return _STATES.get(text.partition(" ")[0].rstrip("+"), "unknown")


def waits_for_room(reason: str) -> bool:
    """Return whether a pending job's reason says that it waits only for its turn or for free
    resources.
    """
    words = reason.strip("()").replace("_", " ")
    return words.partition(",")[0] in _TURN or words.endswith(_RESERVED)
