"""Values that describe jobs: as submitted, as pending or running, and as ended."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from berth.pilot.run import Run
from berth.policies.codes import Code


@dataclass(frozen=True, slots=True)
class Job:
    """The program that a user submits: a batch script with arguments, or a command."""

    words: tuple[str, ...]
    is_script: bool
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class NodeJob:
    """A script that measures one named node, or a pair of nodes, while no other job runs there."""

    name: str
    script: Path
    output: Path
    queue: str
    node: str
    time_limit_s: float
    gres: str | None = None
    """GPUs to allocate, with their count, in the scheduler's notation."""
    account: str | None = None
    qos: str | None = None
    second_node: str | None = None
    """A second node to allocate; the script starts on the first."""


@dataclass(frozen=True, slots=True)
class WorkersJob:
    """Independent copies of one script; a copy that fails may be started again."""

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


NO_WAITING_ENDS = "never starts as it is"
"""Start of ``JobNow.waits_for`` for a job that can never start as submitted."""


@dataclass(frozen=True, slots=True)
class JobNow:
    """The present state of one job. None: the scheduler does not report the value. Times are Unix
    seconds.
    """

    state: str
    """The job's state, one of the values of ``Run.state``."""
    queue: str
    waits_for: str | None = None
    """Why the job waits, in a few words for its user, with the scheduler's own reason."""
    start_s: float | None = None
    """When the job started, or will start by the scheduler's own estimate."""
    nodes: str = ""
    elapsed_s: float | None = None
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class PresentJob:
    """A job that runs or waits, as the scheduler lists it now. Times are Unix seconds."""

    job_id: str
    user: str
    queues: tuple[str, ...]
    """The queues where the job may start, or the queue where it runs."""
    running: bool
    cores: int
    """CPUs on all nodes together, as the scheduler counts them."""
    submit_s: float
    may_start: bool = True
    """False: the job is held, or waits for a reason other than priority, resources or ``after``."""
    account: str = ""
    name: str = ""
    nodes: int = 1
    gpus: int = 0
    """Number of whole GPUs or slices on all nodes together."""
    node_names: tuple[str, ...] = ()
    """The nodes that the job runs on."""
    priority: float = 0.0
    """Jobs with a larger number start first."""
    time_limit_s: float | None = None
    start_s: float | None = None
    """When the job started; None: it is pending."""
    decision: str | None = None
    """Id of Berth's decision, read from the job's comment."""
    memory_bytes: int = 0
    """Memory requested or allocated per node; 0: the scheduler does not report it."""
    after: tuple[str, ...] = ()
    """Ids of jobs that must end before this job may start."""


@dataclass(frozen=True, slots=True)
class EndedJobs:
    """Jobs that ended, whether Berth placed them or not."""

    outcomes: tuple[Run, ...]
    problem: str | None = None
    """Why some ended jobs could not be read, in one sentence; None: all were read."""
    unmoved: Mapping[str, str] = field(default_factory=dict)
    """Codes by decision, of jobs that the filter left as written although the decision was to
    change them."""


@dataclass(frozen=True, slots=True)
class Replacing:
    """The new decision for a pending job that Berth placed earlier, and whether the job
    was moved.
    """

    job: str
    queue: str
    """The queue where the job was pending."""
    to: str | None
    """The queue where the job should go; None: it stays."""
    moved: bool
    decision: str | None
    """Id of the new decision."""
    reason: str


def berth_command() -> str:
    """Return the path of the ``berth`` command; compute nodes must have the same path."""
    beside = Path(sys.executable).with_name("berth")
    return str(beside) if beside.exists() else shutil.which("berth") or "berth"


_STAMP = re.compile(r"\bberth/1 id=([0-9a-z]{1,32})(?![0-9a-z])")


def stamped_decision(text: str) -> str | None:
    """Return the decision id in ``text`` (``berth/1 id=...``); None: ``text`` holds no
    decision id.
    """
    match = _STAMP.search(text)
    return None if match is None else match[1]


_UNMOVED = re.compile(
    rf"{_STAMP.pattern} action=keep code=({Code.UNTRANSLATED}|{Code.SITE_RULE})(?![0-9a-z-])"
)


def unmoved_by_filter(text: str) -> dict[str, str]:
    """Return the filter's code by the decision id in ``text``; empty: the filter did as decided."""
    return dict(_UNMOVED.findall(text))
