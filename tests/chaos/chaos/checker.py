"""What must hold of a history. Each rule is one function; its docstring is the rule.

Nothing of Berth is used here but the form of its stamps: ``berth/1 id=... action=... was=...``.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stamps import problem_of_was, words_of

from chaos.history import Call, Decision, Fault, History, Submission, Windows

SLACK_S = 5.0
"""What a busy machine may add to one call of the filter."""
DIED = "controller died by itself"
"""Slurm 22.05's backup as it gives back: now and then a segmentation fault, or it hangs."""
SCHEDULER_FAULTS = ("controller restarted", "controller fails over", DIED)
LOST_BEFORE_S = 15.0
"""slurmctld writes its state every few seconds: killed, it forgets what came after."""
PEACE_CALLS = 80
"""Of so many jobs in peace some are for Berth to place: two thirds are, on average."""
_UNREACHABLE = re.compile(
    r"unable to contact|communicat|timed out|connection re(?:fused|set)|socket|controller"
    r"|zero bytes|transport endpoint|in standby|unexpected message|given up",
    re.IGNORECASE,
)
_EDIT_OF = {
    "partition": "queue", "queue": "queue", "features": "features", "gres": "gres",
    "tres_per_job": "gres", "tres_per_socket": "gres", "min_nodes": "nodes",
    "time_limit": "time_limit_min", "duration": "time_limit_min", "num_tasks": "tasks",
    "cpus_per_task": "cpus_per_task",
    "min_mem_per_node": "memory_mib_per_node", "min_mem_per_cpu": "memory_mib_per_node",
}  # fmt: skip
"""The key of a decision's edits that explains a field; other fields follow from these."""
_SAME_VALUE = frozenset(("partition", "queue", "time_limit", "num_tasks", "cpus_per_task"))


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold, and where."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def none_rejected(h: History) -> Iterator[str]:
    """No job is rejected: the filter always says success, and a user sees an error only where the
    scheduler itself could not be reached."""
    for call in h.calls:
        if call.code != 0:
            yield f"the filter said {call.code} to {call.name}"
    away = h.under(*SCHEDULER_FAULTS, after_s=15.0)
    for one in h.submissions:
        if one.status == 0:
            continue
        excused = _UNREACHABLE.search(one.said) and away.hold(one.begun_s, one.ended_s)
        if not excused:
            yield f"{one.name} was refused: {one.said.strip()[:200]}"


def none_lost(h: History) -> Iterator[str]:
    """No job is lost: what a user was told is accepted is there, under that id and name; but what a
    killed controller had accepted in its last seconds, or one that died by itself."""
    there = h.accepted()
    killed = [f.begun_s for f in h.faults if f.name == "controller fails over"]
    died = h.under(DIED)
    for one in h.submissions:
        if one.status != 0 or died.hold(one.begun_s, one.ended_s) or (one.job, one.name) in there:
            continue
        if not any(one.begun_s <= at <= one.ended_s + LOST_BEFORE_S for at in killed):
            yield f"{one.name} was accepted as job {one.job} and is not there"


def none_doubled(h: History) -> Iterator[str]:
    """No job is there twice, or without anybody having submitted it."""
    asked = {one.name for one in h.submissions}
    found = Counter(name for _, name in h.accepted())
    for name, count in found.items():
        if name not in asked:
            yield f"nobody submitted {name}"
        elif count > 1:
            yield f"{name} is there {count} times"


def none_held(h: History) -> Iterator[str]:
    """No job is held that was not submitted so; but one whose start failed as its controller died,
    which Slurm holds by itself."""
    held = {one.name for one in h.submissions if one.held}
    for job in h.jobs:
        is_held = "held" in job.reason.lower() and "launch failed" not in job.reason
        if is_held and job.name not in held:
            yield f"{job.name} (job {job.id}) is held: {job.reason}"


def each_edit_is_explained(h: History) -> Iterator[str]:
    """A job is as it was, or carries a stamp of an edit that gives back every field."""
    garbled = _garbled(h)
    for call in h.calls:
        changed = call.changed
        words = words_of(call.stamp)
        if changed and call.stamp is None:
            yield f"{call.name} was changed without a stamp: {changed}"
        elif changed and words.get("action") != "edit" and not garbled.hold(call.at_s):
            yield f"{call.name} was changed, its stamp says {call.stamp}"
        elif words.get("action") == "edit" and not changed and not garbled.hold(call.at_s):
            yield f"{call.name} has the stamp of an edit and is as it was"
        if changed and h.setting.scheduler == "slurm":
            problem = problem_of_was(words.get("was", ""), call.before, changed)
            if problem is not None:
                yield f"{call.name}: {problem}"


def choices_are_respected(h: History) -> Iterator[str]:
    """A job that opted out carries nothing; one whose user chose its queue stays there."""
    asked = {one.name: one for one in h.submissions}
    for call in h.calls:
        one = asked.get(call.name)
        if one is None:
            continue
        if one.opted_out and (call.changed or call.stamp):
            yield f"{call.name} opted out: {call.changed} {call.stamp}"
        if one.queue not in (None, "auto") and call.changed:
            yield f"{call.name} chose {one.queue}: {call.changed}"


def records_agree(h: History) -> Iterator[str]:
    """The scheduler's record of a job is what the filter let go on: its stamp and its queue."""
    calls = h.of_calls()
    for job in h.jobs:
        seen = calls.get(job.name)
        if not seen:
            yield f"{job.name} (job {job.id}) went past the filter"
        elif not any(_same(call, job.queue, job.stamp) for call in seen):
            last = seen[-1]
            yield (f"{job.name} is in {job.queue} with {job.stamp}; the filter left it in "
                   f"{_queue(last)} with {last.stamp}")  # fmt: skip


def decisions_once(h: History) -> Iterator[str]:
    garbled, calls = _garbled(h), h.of_calls()
    jobs_of: dict[str, set[str]] = defaultdict(set)
    for job in h.jobs:
        decision = words_of(job.stamp).get("id")
        if decision and not any(garbled.hold(c.at_s) for c in calls.get(job.name, ())):
            jobs_of[decision].add(job.name)
    for decision, names in jobs_of.items():
        if len(names) > 1:
            yield f"{sorted(names)} carry one decision, {decision}"


def decisions_arrive(h: History) -> Iterator[str]:
    """Every decision that a job carries is in the store, of that user and queue, with the edits
    that were made; at the end nothing waits elsewhere."""
    if h.ending.dropped:
        yield f"{h.ending.dropped} decisions were dropped"
    yield from (f"left behind: {name}" for name in h.ending.left)
    rows: dict[str, list[Decision]] = defaultdict(list)
    for row in h.decisions:
        rows[row.id].append(row)
    garbled = _garbled(h)
    asked = {one.name: one for one in h.submissions}
    for call in h.calls:
        decision = words_of(call.stamp).get("id")
        if decision is None or garbled.hold(call.at_s):
            continue
        found = rows.get(decision, [])
        if len(found) != 1:
            yield f"the decision {decision} of {call.name} is in the store {len(found)} times"
            continue
        problem = _mismatch(call, found[0], asked.get(call.name))
        if problem is not None:
            yield f"{call.name}: {problem}"


def in_time(h: History) -> Iterator[str]:
    """No call of the filter takes longer than its deadline (and what a busy machine adds), and a
    daemon that hangs costs so many deadlines as the breaker allows, no more."""
    for call in h.calls:
        if call.took_s > h.setting.deadline_s + SLACK_S:
            yield f"{call.name} waited {call.took_s:.2f} s"
    for fault in (f for f in h.faults if f.name == "stopped"):
        slow = [
            call for call in h.calls
            if fault.on_s <= call.at_s < fault.off_s
            and call.took_s >= 0.9 * h.setting.deadline_s
        ]  # fmt: skip
        most = sum(_tries(h, seconds) for seconds in _lives(h, fault))
        if len(slow) > most:
            yield (f"{len(slow)} submissions paid the deadline in {fault.off_s - fault.on_s:.1f}"
                   f" s of a hung daemon: at most {most} may")  # fmt: skip


def breaker_closes(h: History) -> Iterator[str]:
    """Once the daemon answers again, jobs are decided again."""
    stamped = [call.at_s for call in h.calls if call.stamp]
    faults = [fault for fault in h.faults if fault.name != DIED]
    for fault in faults:
        end = min((f.begun_s for f in faults if f.begun_s > fault.ended_s), default=math.inf)
        if not any(fault.ended_s <= at_s < end for at_s in stamped):
            yield f"after '{fault.name}' no job was decided"
    calls = sorted(h.calls, key=lambda call: call.at_s)
    if calls and not any(call.stamp for call in calls[-200:]):
        yield "at the end no job is decided any more"


def jobs_are_placed_in_peace(h: History) -> Iterator[str]:
    """While all is well jobs are placed, not only answered: a daemon that cannot read the
    scheduler's state any more leaves every job as it is. A new controller's nodes take a moment."""
    away = h.under(*SCHEDULER_FAULTS, after_s=15.0)
    faults = [fault for fault in h.faults if fault.name != DIED]
    for fault in faults:
        end = min((f.begun_s for f in faults if f.begun_s > fault.ended_s), default=math.inf)
        calls = [
            call for call in h.calls
            if fault.well_s <= call.at_s < end and not away.hold(call.at_s)
        ]  # fmt: skip
        placed = any(words_of(call.stamp).get("action") == "edit" for call in calls)
        if len(calls) >= PEACE_CALLS and not placed:
            yield f"none of {len(calls)} jobs was placed after '{fault.name}', when all was well"


def the_switch_stops_all(h: History) -> Iterator[str]:
    """While the kill switch is there, no job is changed or stamped."""
    for fault in (f for f in h.faults if f.name == "switched off"):
        for call in h.calls:
            inside = fault.on_s <= call.at_s and call.at_s + call.took_s <= fault.off_s
            if inside and (call.changed or call.stamp):
                yield f"{call.name} was decided while Berth was switched off: {call.stamp}"


def the_daemon_lives(h: History) -> Iterator[str]:
    """The daemon ends by nobody's hand but ours, and comes back from every fault."""
    yield from h.ending.problems


RULES: tuple[Callable[[History], Iterator[str]], ...] = (
    none_rejected, none_lost, none_doubled, none_held, each_edit_is_explained,
    choices_are_respected, records_agree, decisions_once, decisions_arrive, in_time,
    breaker_closes, jobs_are_placed_in_peace, the_switch_stops_all, the_daemon_lives,
)  # fmt: skip


def check(history: History) -> list[Violation]:
    """Everything that does not hold."""
    return [Violation(rule.__name__, text) for rule in RULES for text in rule(history)]


def _garbled(h: History) -> Windows:
    """When somebody changed the daemon's answers on their way: a decision may be anything then."""
    return h.under("answers corrupted", after_s=1.0)


def _lives(h: History, hung: Fault) -> list[float]:
    """How long each controller's filters had to do with a hung daemon: a new one, or the backup,
    knows nothing of what its predecessor's breaker learnt."""
    found, begun_s = [], hung.on_s
    for fault in sorted(h.faults, key=lambda fault: fault.begun_s):
        if fault.name not in SCHEDULER_FAULTS or not hung.on_s <= fault.begun_s < hung.off_s:
            continue
        found.append(fault.begun_s - begun_s)
        if fault.name == "controller fails over":  # to the backup, until the primary is there again
            found.append(min(fault.ended_s, hung.off_s) - fault.begun_s)
        begun_s = min(fault.off_s, hung.off_s)
    return [*found, hung.off_s - begun_s]


def _tries(h: History, seconds: float) -> int:
    """How often hung daemons may be asked in that time, by the breakers' rule."""
    s = h.setting
    count, at_s, pause_s = s.breaker_failures, 0.0, s.first_pause_s
    while at_s + pause_s < seconds:
        at_s += pause_s
        pause_s = min(2 * pause_s, s.longest_pause_s)
        count += 1
    return s.filters * (count + 1)


def _queue(call: Call) -> str | None:
    found = call.after.get("partition", call.after.get("queue"))
    return None if found is None else str(found)


def _same(call: Call, queue: str, stamp: str | None) -> bool:
    words = words_of(stamp)
    if "putback" in words:
        return words.get("id") == words_of(call.stamp).get("id")
    return (call.stamp or None) == (stamp or None) and _queue(call) in (queue, None)


def _mismatch(call: Call, row: Decision, asked: Submission | None) -> str | None:
    words = words_of(call.stamp)
    unknown = row.user.startswith("uid:") and row.code == "not-covered-user"
    if asked is not None and row.user != asked.user and not unknown:
        return f"of {asked.user}, its decision is of {row.user}'s job"
    if asked is not None and (row.queue or None) != (asked.queue or None):
        return f"asked for {asked.queue}, decided was for {row.queue}"
    if words.get("action") != row.action and words.get("code") not in ("untranslated", "site-rule"):
        return f"{words.get('action')} on the job, {row.action} in the store"
    for key, (_, now) in call.changed.items():
        edit = _EDIT_OF.get(key)
        if edit is None:
            continue
        if edit not in row.edits:
            return f"{key} was changed to {now}, decided was {row.edits}"
        if key in _SAME_VALUE and str(row.edits[edit]) != _plain(now):
            return f"{key} is {now}, decided was {row.edits[edit]}"
    return None


def _plain(value: object) -> str:
    """Lua has one kind of number."""
    return f"{value:.0f}" if isinstance(value, float) else str(value)
