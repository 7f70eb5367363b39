"""Submitted and ended jobs, and ring buffers of the last ended jobs by key (user, shape, account).

Jobs are stored in arrays of bounded size; the least recently used keys are dropped.
"""

from __future__ import annotations

import math
import zlib
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class AskedJob:
    """A job's user, resources and script as known at submission; an empty text or None means
    unknown."""

    user: str
    submit_s: float
    """Submission, Unix time in seconds."""
    cores: int = 1
    """Number of cores requested."""
    request_s: float | None = None
    """Time limit in seconds."""
    request_bytes: float | None = None
    """Requested memory in bytes."""
    account: str = ""
    name: str = ""
    script: str = ""
    """Fingerprint of the batch script with its arguments."""
    similar: str = ""
    """Digest of the script's arguments with numbers left out."""
    platform: str = ""
    """Platform where the job is to run, or ran; past jobs of other platforms get less weight."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that has ended. Times are Unix seconds."""

    asked: AskedJob
    end_s: float
    runtime_s: float
    completed: bool = True
    """Whether the job ended without failure."""


Floats = NDArray[np.float64]

(
    LOG_RUN, LOG_CORES, LOG_REQUEST, LOG_BYTES, END, SUBMIT, FAILED, USER, NAME, SCRIPT, PLATFORM,
    SIMILAR,
) = range(12)  # fmt: skip
"""Rows of a ring's array: one for each property of a job that is remembered."""
COLUMNS = 12
"""Number of properties that are remembered of a job."""
NO_REQUEST_S = 7 * 86_400.0
"""Time limit in seconds assumed for jobs without one."""
_NO_BYTES = 1.0
_FIRST_JOBS = 4


@cache
def _log_ranks(capacity: int) -> Floats:
    """Return [newest, job]: log(1 + number of newer jobs) / 4, for a full ring whose newest job is
    at ``newest``."""
    rows = np.arange(capacity)
    ranks: Floats = np.log1p((rows[:, None] - rows[None, :]) % capacity) / 4.0
    return ranks


class Ring:
    """The last ``capacity`` ended jobs of one key; the array grows as jobs are added."""

    __slots__ = ("_capacity", "_columns", "seen")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: Floats = np.empty((COLUMNS, min(_FIRST_JOBS, capacity)))
        self.seen = 0
        """Number of jobs ever added."""

    def add(self, job: Floats) -> None:
        """Add an ended job; in a full ring the new job replaces the oldest one."""
        have = self._columns.shape[1]
        if self.seen == have and have < self._capacity:
            grown = np.empty((COLUMNS, min(2 * have, self._capacity)))
            grown[:, :have] = self._columns
            self._columns = grown
        self._columns[:, self.seen % self._columns.shape[1]] = job
        self.seen += 1

    def __len__(self) -> int:
        return min(self.seen, int(self._columns.shape[1]))

    @property
    def columns(self) -> Floats:
        """Return the remembered jobs as a view, [properties, jobs], in no particular order."""
        return self._columns[:, : len(self)]

    @property
    def log_ranks(self) -> Floats:
        """Return for each remembered job log(1 + number of newer jobs) / 4."""
        ranks: Floats = _log_ranks(len(self))[(self.seen - 1) % len(self)]
        return ranks


class Rings:
    """One ring per key; above ``keys`` rings the least recently used one is dropped."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._rings: OrderedDict[Hashable, Ring] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rings)

    def add(self, key: Hashable, job: Floats, capacity: int) -> None:
        """Remember an ended job (from ``column_of``) under ``key``, for example a user or a job
        shape."""
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = Ring(capacity)
            if len(self._rings) > self._keys:
                self._rings.popitem(last=False)
        else:
            self._rings.move_to_end(key)
        ring.add(job)

    def get(self, key: Hashable) -> Ring | None:
        """Return the remembered jobs of ``key``; None where there are none."""
        return self._rings.get(key)


def column_of(job: JobEnd) -> Floats:
    """Return the properties of an ended job as an array, in the order of ``LOG_RUN`` and the
    following names."""
    asked = job.asked
    row = np.empty(COLUMNS)
    row[LOG_RUN] = math.log(max(job.runtime_s, 1.0))
    row[LOG_CORES], row[LOG_REQUEST], row[LOG_BYTES] = shape_of(asked)
    row[SUBMIT], row[END] = asked.submit_s, job.end_s
    row[FAILED] = 0.0 if job.completed else 1.0
    row[USER] = code(asked.user)
    row[NAME], row[SCRIPT] = code(asked.name), code(asked.script)
    row[PLATFORM], row[SIMILAR] = code(asked.platform), code(asked.similar)
    return row


def shape_of(asked: AskedJob) -> tuple[float, float, float]:
    return (
        math.log(max(asked.cores, 1)),
        math.log(max(asked.request_s or NO_REQUEST_S, 1.0)),
        math.log(max(asked.request_bytes or _NO_BYTES, 1.0)),
    )


@lru_cache(maxsize=4_096)
def code(text: str) -> float:
    """Return the CRC-32 of a text, by which texts are compared in arrays; 0 for an empty (unknown)
    text."""
    return float(zlib.crc32(text.encode("utf-8", "surrogatepass"))) if text else 0.0
