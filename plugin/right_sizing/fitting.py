"""What a new job asks too much, in a sentence, and a smaller request where its user wants one.

A request stays where a command of the script takes what its job was given, for its run would
change: a JVM's heap, ``samtools sort``'s buffers, STAR's and GATK's limits follow the allocation.
What the list (``self_sizing.json``) does not know, and what a script hides in another, is not
noticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources
from typing import NamedTuple

from berth.pilot.units import format_bytes
from berth.plugin.daemon.messages import Job
from berth.plugin.history.advice import WORTH_SAYING
from berth.plugin.history.matching import plain_name
from berth.plugin.right_sizing.guard import Guard
from berth.plugin.site.site import RightSizing
from berth.plugin.store.records import MemoryNeedRecord
from berth.policies.values import Request

WISH = "berth-memory:fit"
"""A word in a job's comment that asks to make its memory request fit."""
_WISH = re.compile(rf"(?:^|[\s,;]){WISH}(?:[\s,;]|$)")
_MIB = 2**20
KEY_CHARACTERS = 16
"""How many characters of a key's digest a job's stamp holds."""


class Watch(NamedTuple):
    """What is known at the moment of a submission."""

    guard: Guard
    now_s: float
    enforce: bool
    """Whether requests are changed at all."""
    shared_anew: bool = False
    """The job goes to a place where its memory is another number for each node."""


class Fit(NamedTuple):
    """What is said and done about a job's memory."""

    sentence: str
    memory_mib: int | None
    """A smaller request for a node; None: it stays as it is."""
    key: str


def wants(settings: RightSizing, job: Job, request: Request) -> bool:
    """Return whether this job's request may be made smaller."""
    if job.comment and WISH in job.comment and _WISH.search(job.comment):
        return True
    return (
        job.user in settings.users
        or request.account in settings.accounts
        or request.workload in settings.programs
        or plain_name(job.name or "") in settings.programs
    )


def need_of(
    look_up: Callable[[str], MemoryNeedRecord | None], digests: Iterable[str]
) -> MemoryNeedRecord | None:
    """Return the need under the closest of a job's keys for which one is known."""
    return next(filter(None, map(look_up, digests)), None)


def fit(
    job: Job, request: Request, need: MemoryNeedRecord, settings: RightSizing, watch: Watch
) -> Fit | None:
    """Return what is said and done about a job's memory; None: it asks for no more than it should,
    or nothing is known."""
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
    if not watch.enforce or not wants(settings, job, request):
        return Fit(sentence, None, "") if settings.advise else None
    problem = why_not(job, request, need, watch)
    if problem is not None:
        return Fit(f"{sentence} It is left so: {problem}.", None, "")
    memory_mib = -(-need.enough_bytes // _MIB)
    now = format_bytes(memory_mib * _MIB)
    return Fit(f"{sentence} It now asks {now}.", memory_mib, key_of(need))


def key_of(need: MemoryNeedRecord) -> str:
    """Return the key as it stands in a job's stamp."""
    return need.digest[7 : 7 + KEY_CHARACTERS]


def why_not(job: Job, request: Request, need: MemoryNeedRecord, watch: Watch) -> str | None:
    """Return why a request must not be made smaller though its user wants that; None: it may."""
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
    """Return the command in the script that sizes itself; None: none that is known."""
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
