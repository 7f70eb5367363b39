"""Compares a new job's memory request with the peaks of matching past jobs: returns advice, and a
smaller request where the user wants one.

A request is not changed if a command of the script sizes itself to the allocation, because the run
would change: a JVM's heap, ``samtools sort``'s buffers, STAR's and GATK's limits. Commands that the
list (``self_sizing.json``) lacks, and commands in a script called by the script, are not noticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources
from typing import NamedTuple

from berth.pilot.units import format_bytes
from berth.plugin.daemon.memory_guard import Guard
from berth.plugin.daemon.protocol import SubmittedJob
from berth.plugin.history.advice import WORTH_SAYING
from berth.plugin.history.matching import workload_key
from berth.plugin.site.document import RightSizing, SlicesFromUse
from berth.plugin.store.records import MemoryNeedRecord
from berth.policies.values import Request

MEMORY_WISH = "berth-memory:fit"
"""A word in a job's comment that requests right-sizing of the job's memory."""
_WISH = re.compile(rf"(?:^|[\s,;]){MEMORY_WISH}(?:[\s,;]|$)")
SLICE_WISH = "berth-slice:fit"
"""A word in a job's comment that requests a MIG slice by what past runs used."""
_SLICE_WISH = re.compile(rf"(?:^|[\s,;]){SLICE_WISH}(?:[\s,;]|$)")
_MIB = 2**20
STOPPED_S = 86_400.0
"""How long jobs of a kind get no slice by use after one failed there, in seconds."""
KEY_CHARACTERS = 16
"""Number of characters of a match key's digest in the comment that Berth writes into the job."""


class Watch(NamedTuple):
    """The conditions at a submission under which a request may be made smaller."""

    guard: Guard
    now_s: float
    enforce: bool
    """Whether memory requests may be changed at all."""
    shared_anew: bool = False
    """Whether the job moves to a place where its memory per node is a different number."""


class SmallerRequest(NamedTuple):
    """The advice on a job's memory, and the new request if there is one."""

    sentence: str
    memory_mib: int | None
    """A smaller request per node (MiB); None: the request stays unchanged."""
    key: str


def wants_slices(settings: SlicesFromUse, job: SubmittedJob) -> bool:
    """Return whether the site, user or comment allows MIG slices for this job by what its past runs
    used."""
    return settings.everybody or job.user in settings.users or _says(job.comment, _SLICE_WISH)


def _says(comment: str | None, wish: re.Pattern[str]) -> bool:
    return comment is not None and "berth-" in comment and wish.search(comment) is not None


def need_of(
    look_up: Callable[[str], MemoryNeedRecord | None], digests: Iterable[str]
) -> MemoryNeedRecord | None:
    """Return the memory need under the first of ``digests``, a job's match keys from the closest
    on, for which one is stored; None: there is none."""
    return next(filter(None, map(look_up, digests)), None)


def fit(
    job: SubmittedJob, request: Request, need: MemoryNeedRecord, settings: RightSizing, watch: Watch
) -> SmallerRequest | None:
    """Return advice on a job's memory request; None: the request is not much larger than needed,
    or the need is unknown."""
    asked_bytes = request.resources.memory_bytes_per_node
    if (
        asked_bytes is None
        or need.enough_bytes is None
        or asked_bytes < WORTH_SAYING * need.enough_bytes
    ):
        return None
    polled = " as polled" if need.polled else ""
    sentence = (
        f"It asks {format_bytes(asked_bytes)} a node, needed at most "
        f"{format_bytes(need.peak_bytes)}{polled} in {need.runs} runs."
    )
    wanted = job.user in settings.users or _says(job.comment, _WISH)
    if not (watch.enforce and wanted):
        return SmallerRequest(sentence, None, "") if settings.advise else None
    problem = why_not(job, request, need, watch)
    if problem is not None:
        return SmallerRequest(f"{sentence} It is left so: {problem}.", None, "")
    memory_mib = -(-need.enough_bytes // _MIB)
    now = format_bytes(memory_mib * _MIB)
    return SmallerRequest(f"{sentence} It now asks {now}.", memory_mib, key_of(need))


def key_of(need: MemoryNeedRecord) -> str:
    """Return the need's match key in the short form that the job's comment holds."""
    return need.digest[7 : 7 + KEY_CHARACTERS]


def slice_key(user: str, workload: str) -> str:
    """Return the key, in the short form of ``key_of``, of one user's jobs of a workload that get
    slices by what past runs used."""
    return workload_key(user, workload)[7 : 7 + KEY_CHARACTERS]


def failed_in_slice(guard: Guard, key: str, now_s: float) -> bool:
    """Return whether a job of this key failed in such a slice a short time ago; later the history
    of its runs tells it."""
    return now_s - guard.stopped.get(key, -STOPPED_S) < STOPPED_S


def why_not(
    job: SubmittedJob, request: Request, need: MemoryNeedRecord, watch: Watch
) -> str | None:
    """Return why this job's memory request must not be made smaller although its user wants
    that; None: it may be."""
    guard = watch.guard
    parts = bool(job.array) or job.het is not None
    by_node = bool(job.memory_mib_per_node) and "shape" not in request.pinned
    again = guard.requeue if job.requeue is None else job.requeue == 1
    stopped_s = guard.stopped.get(key_of(need))
    checks = (
        (job.kind != "batch" or not job.script,
         "only a batch script that Berth has seen can run again"),
        (parts, "jobs of several parts keep their memory"),
        (not by_node or request.needs.exclusive, "its memory is not asked for by node"),
        (not again, "it is not to run again"),
        (watch.shared_anew, "it is shared out anew where the job goes"),
        (not guard.watches(watch.now_s), "nobody would give it back if it were too little"),
        (stopped_s is not None and stopped_s >= need.updated_s, "it was too little the last time"),
    )  # fmt: skip
    problem = next((why for holds, why in checks if holds), None)
    if problem is None and (command := sizes_itself(job.script or "")) is not None:
        problem = f"{command[:40]} takes what its job is given"
    return problem


_WORD = re.compile(r"[^\s;&|()`'\"$<>={}\[\]]+")
_SUFFIX = re.compile(r"\.(?:sh|py|pl|jar|exe|bin)$")


def sizes_itself(script: str) -> str | None:
    """Return the command or variable in the script by which the program sizes itself to the
    allocation; None: no known one."""
    commands, following, variables = _known()
    for variable in variables:
        if variable in script:
            return variable
    for line in script.splitlines():
        text = line.lstrip()
        if text.startswith("#"):
            continue
        words: list[str] = _WORD.findall(text)
        for index, word in enumerate(words):
            called = word.rpartition("/")[2]
            name = _SUFFIX.sub("", called).lower()
            if name in commands or called.endswith(".jar"):
                return called
            if name in following and not following[name].isdisjoint(words[index + 1 :]):
                return called
    return None


@cache
def _known() -> tuple[frozenset[str], dict[str, frozenset[str]], tuple[str, ...]]:
    text = resources.files(__package__).joinpath("self_sizing.json").read_text(encoding="utf-8")
    document = json.loads(text)
    return (
        frozenset(command.lower() for command in document["commands"]),
        {name: frozenset(words) for name, words in document["with"].items()},
        tuple(document["variables"]),
    )
