"""Jobs as they are submitted, and what became of them."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be run: a batch script with arguments, or a command."""

    words: tuple[str, ...]
    is_script: bool
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class NodeJob:
    """A script that runs alone on one named node, or on two of them, to measure."""

    name: str
    script: Path
    output: Path
    queue: str
    node: str
    time_limit_s: float
    gres: str | None = None
    """GPUs to hold, with their count."""
    account: str | None = None
    qos: str | None = None
    second_node: str | None = None
    """Held with the first, which the script starts on."""


@dataclass(frozen=True, slots=True)
class WorkersJob:
    """Copies of a script, independent of each other; a copy that is lost may be started again."""

    name: str
    script: Path
    output: Path
    """Folder for one log of each copy."""
    queue: str
    count: int
    time_limit_s: float
    cores: int = 1
    """Cores of each copy."""
    account: str | None = None
    qos: str | None = None


ENDED = frozenset(("completed", "failed", "timeout", "out-of-memory", "cancelled"))
"""States of a job that runs no more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job. None: the scheduler does not say. Times are Unix seconds."""

    job_id: str
    state: str
    """``pending``, ``running``, ``completed``, ``failed``, ``timeout``, ``out-of-memory``,
    ``cancelled`` or ``unknown``."""
    queue: str
    elapsed_s: float
    """Seconds from its start to its end, or until now; without the time it was suspended."""
    nodes: str = ""
    peak_memory_bytes: int | None = None
    """The most host memory that a node held."""
    peak_gpu_memory_bytes: int | None = None
    """The most that a GPU or slice held; None also: it had none."""
    user: str = ""
    decision: str | None = None
    """Id of the decision whose stamp the job carries."""
    exit_status: int | None = None
    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    node_count: int | None = None
    cores: int | None = None
    """Cores as the scheduler counts them: on Slurm hardware threads, where the site counts
    those."""
    gpus: int | None = None
    """Whole GPUs or slices of all nodes together."""
    time_limit_s: float | None = None
    energy_j: float | None = None
    stamp_lost: bool = False
    """Something else stands where the scheduler keeps stamps."""


NO_WAITING_ENDS = "never starts as it is"
"""How ``JobNow.waits_for`` begins where the job waits in vain."""


@dataclass(frozen=True, slots=True)
class JobNow:
    """A job that the scheduler knows at present. None: it does not say. Times are Unix seconds."""

    state: str
    """The state as ``Outcome`` names it."""
    queue: str
    waits_for: str | None = None
    """Why it waits, in a few words that a user understands, with the scheduler's own word."""
    start_s: float | None = None
    """When it started, or by the scheduler's own estimate will start."""
    nodes: str = ""
    elapsed_s: float | None = None
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class PresentJob:
    """A job that runs or waits, as the scheduler has it at present. Times are Unix seconds."""

    job_id: str
    user: str
    queues: tuple[str, ...]
    """The queues where it runs, or may start."""
    running: bool
    cores: int
    """Cores of all nodes together, as the scheduler counts them."""
    submit_s: float
    may_start: bool = True
    """False: it is held, or waits for something else than its turn, room and ``after``."""
    account: str = ""
    name: str = ""
    nodes: int = 1
    gpus: int = 0
    """Whole GPUs or slices of all nodes together."""
    node_names: tuple[str, ...] = ()
    """The nodes that it runs on."""
    priority: float = 0.0
    """Larger ones start first."""
    time_limit_s: float | None = None
    start_s: float | None = None
    """When it started; None: it waits."""
    decision: str | None = None
    """Id of the decision whose stamp it carries."""
    memory_bytes: int = 0
    """Asked for on each node, or held there; 0: the scheduler does not say."""
    after: tuple[str, ...] = ()
    """Jobs that must end before it may start."""


@dataclass(frozen=True, slots=True)
class EndedJobs:
    """Jobs that ended, with Berth's stamp or without."""

    outcomes: tuple[Outcome, ...]
    problem: str | None = None
    """Why some that ended are not here, in one sentence; None: all are."""


@dataclass(frozen=True, slots=True)
class Replacing:
    """The result of placing one pending job anew."""

    job: str
    queue: str
    """The queue where it waited."""
    to: str | None
    """The queue where it should go; None: it stays."""
    moved: bool
    decision: str | None
    """Id of the new decision."""
    reason: str


def berth_command() -> str:
    """Return this program's own path; the compute nodes must have it at the same place."""
    beside = Path(sys.executable).with_name("berth")
    return str(beside) if beside.exists() else shutil.which("berth") or "berth"


_STAMP = re.compile(r"\bberth/1 id=([0-9a-z]{1,32})(?![0-9a-z])")


def stamped_decision(text: str) -> str | None:
    """Return the id in a stamp (``berth/1 id=...``) somewhere in ``text``; None: there is none."""
    match = _STAMP.search(text)
    return None if match is None else match[1]
