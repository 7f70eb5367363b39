"""The jobs of a calibration: submits and follows them, and resumes after an interruption."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.network.links import LinkMeasurement
from berth.pilot.node import QUICK_KERNELS, NodeMeasurement
from berth.pilot.run import ENDED, Run
from berth.pilot.units import format_seconds
from berth.plugin.calibrate.kinds import CalibratedKind, chosen_nodes, gives
from berth.plugin.calibrate.state import PAIR, CalibrationState, CalibrationStep, Folder, outdated
from berth.plugin.scheduler import ClusterFacts, NodeFacts, NodeJob, Scheduler
from berth.plugin.scheduler.jobs import berth_command

EXPECTED_S = {"quick": 60.0, "normal": 160.0, "full": 540.0}
"""Expected seconds of one node's measurement by depth, on an otherwise idle machine."""
LINK_S = 60.0
"""Expected seconds of measuring the link between two nodes, both allocated to one job."""
OLDER = ".older"
"""Suffix of an earlier result while its node is measured again."""
AT_ONCE = 8
"""Maximum number of nodes measured at a time, so that a calibration never fills a partition."""
POLL_S = (0.5, 10.0)
"""Seconds between two polls of the jobs: initial and maximum."""


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """Settings of a calibration."""

    depth: str = "normal"
    """``quick`` (few kernels), ``normal`` or ``full`` (longer)."""
    nodes_per_kind: int = 3
    time_limit_s: float = 1800.0
    account: str | None = None
    qos: str | None = None
    links: bool = True
    """Whether to measure the link between two nodes of each type, too."""

    @property
    def judged_limit_s(self) -> float:
        """Return the time limit that a queue must allow; 0 with a QOS, which may override the
        queue's."""
        return 0.0 if self.qos is not None else self.time_limit_s


@dataclass(frozen=True, slots=True)
class Todo:
    """One node to measure, or the reason why it is not measured."""

    kind: CalibratedKind
    node: NodeFacts | None
    why_not: str | None = None
    stale: str | None = None
    """Why the node's existing result is outdated."""
    second: NodeFacts | None = None
    """The second node, where the link between two nodes is to be measured."""

    @property
    def nodes(self) -> tuple[NodeFacts, ...]:
        """Return the nodes that the job needs."""
        return tuple(node for node in (self.node, self.second) if node is not None)

    @property
    def what(self) -> str:
        """Return the step's name: the node's name, or both names separated by a comma."""
        return PAIR.join(node.name for node in self.nodes)


@dataclass(frozen=True, slots=True)
class CalibrationProgress:
    """Numbers of a calibration's jobs by their state."""

    done: int = 0
    running: int = 0
    waiting: int = 0
    failed: int = 0


def plan(
    kinds: Sequence[CalibratedKind],
    facts: ClusterFacts,
    folder: Folder,
    settings: CalibrationSettings,
    drivers: Mapping[str, str] = MappingProxyType({}),
) -> list[Todo]:
    """Return the measurements still to be made, in order; a node type that no job can measure gets
    an entry with the reason.

    ``drivers``: GPU driver versions by host, as last seen.
    """
    todo = []
    for kind in kinds:
        chosen = chosen_nodes(kind, facts, settings.nodes_per_kind, settings.judged_limit_s)
        if not chosen:
            todo.append(Todo(kind, None, _none_chosen(kind, facts, settings.judged_limit_s)))
        for node in chosen:
            result = folder.result(kind.name, node.name)
            stale = None if result is None else outdated(result, node, drivers)
            if result is None or not result.complete or stale is not None:
                todo.append(Todo(kind, node, stale=stale))
        if settings.links and not kind.platform.is_gpu:
            todo += _links(kind, facts, folder, settings)
    return todo


def _none_chosen(kind: CalibratedKind, facts: ClusterFacts, limit_s: float) -> str:
    """Return why no node of this type can be measured."""
    if not kind.nodes:
        return "has no node in the cluster"
    if kind.open_candidates(facts, limit_s):
        return "none of its nodes works now"
    names = dict.fromkeys(candidate.queue for candidate in kind.candidates)
    problems = []
    for queue in (facts.queues[name] for name in names if name in facts.queues):
        if not queue.up:
            problems.append(f"{queue.name} is {queue.closed or 'not up'}")
        elif not gives(queue, limit_s):
            problems.append(
                f"jobs in {queue.name} take at most {format_seconds(queue.max_time_s or 0.0)}: "
                f"give a shorter --time-limit than {format_seconds(limit_s)}"
            )
    return "; ".join(problems)


def _links(
    kind: CalibratedKind, facts: ClusterFacts, folder: Folder, settings: CalibrationSettings
) -> list[Todo]:
    """Return the pair of free nodes whose link is to be measured, or why none can be; empty
    where the link was measured or the type has one node."""
    if len(kind.nodes) < 2:
        return []
    nodes = {node.name: node for node in facts.nodes}
    current = [
        link
        for link in folder.links(kind.name)
        if link.nodes[0] in nodes and outdated(link, nodes[link.nodes[0]]) is None
    ]
    if current:
        return []
    submitted = [s.node for s in folder.read().steps if s.kind == kind.name and s.job is not None]
    waiting = next((name for name in submitted if PAIR in name), None)
    if waiting is not None:
        first, _, second = waiting.partition(PAIR)
        if first in nodes and second in nodes:
            return [Todo(kind, nodes[first], second=nodes[second])]
    pair = kind.free_pair(facts, settings.judged_limit_s)
    if not pair:
        why = "no two nodes of it are free now: what connects them is not measured"
        return [Todo(kind, None, why)]
    return [Todo(kind, pair[0], second=pair[1])]


def follow(
    todo: Sequence[Todo],
    facts: ClusterFacts,
    folder: Folder,
    scheduler: Scheduler,
    *,
    settings: CalibrationSettings,
    wait_s: float,
    show: Callable[[CalibrationProgress], None] = lambda _: None,
) -> CalibrationState:
    """Submit the remaining measurements and wait for them; return the state at the end or timeout.

    A step whose job an earlier call submitted is followed, not submitted again. If only pending
    jobs are left and nothing changes for ``wait_s`` seconds, they stay in the queue. Raises
    SchedulerError where the scheduler does not answer.
    """
    state = folder.read()
    folder.write(state)
    flying: list[CalibrationStep] = []
    pending: list[Todo] = []
    for step_to_do in todo:
        step = (
            None if step_to_do.node is None else state.step(step_to_do.kind.name, step_to_do.what)
        )
        if step is not None and step.job is not None:
            flying.append(step)
        elif step_to_do.node is not None:
            pending.append(step_to_do)
    moved, pause = time.monotonic(), POLL_S[0]
    last, done, failed = None, 0, 0
    while True:
        known = scheduler.outcomes([s.job for s in flying if s.job is not None])
        for step in list(flying):
            outcome = known.get(step.job or "")
            if outcome is None or outcome.state in ENDED:
                ended = _ended(step, outcome, folder)
                flying.remove(step)
                state = state.with_step(ended)
                done, failed = done + (ended.problem is None), failed + (ended.problem is not None)
        while pending and len(flying) < AT_ONCE:
            step_to_do = pending.pop(0)
            step = submitted(step_to_do, facts, folder, scheduler, settings=settings)
            state = state.with_step(step)
            folder.write(state)
            if step.job is None:
                failed += 1
            else:
                flying.append(step)
        folder.write(state)
        running = sum(_state_of(s, known) == "running" for s in flying)
        now = CalibrationProgress(done, running, len(flying) - running + len(pending), failed)
        if now != last:
            moved, last, pause = time.monotonic(), now, POLL_S[0]
            show(now)
        idle_s = time.monotonic() - moved
        if not flying or (not running and idle_s >= wait_s):
            return state
        time.sleep(pause)
        pause = min(POLL_S[1], pause * 1.3)


def _state_of(step: CalibrationStep, known: Mapping[str, Run]) -> str:
    outcome = known.get(step.job or "")
    return "pending" if outcome is None else outcome.state


def _ended(step: CalibrationStep, outcome: Run | None, folder: Folder) -> CalibrationStep:
    """Return the step with its job removed, as done or with the reason of its failure; after a
    failure an earlier result file is restored."""
    result = folder.result(step.kind, step.node)
    if result is not None and result.complete:
        return step.model_copy(update={"job": None, "problem": None})
    problem = _why(step, outcome, result, folder)
    path = folder.file(step.kind, step.node, "json")
    older = path.with_suffix(OLDER)
    if older.exists():
        older.replace(path)
    return step.model_copy(update={"job": None, "problem": problem})


def _why(
    step: CalibrationStep,
    outcome: Run | None,
    result: NodeMeasurement | LinkMeasurement | None,
    folder: Folder,
) -> str:
    if result is not None and result.problems:
        return result.problems[-1]
    log = folder.file(step.kind, step.node, "log")
    try:
        log_lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        log_lines = []
    ended = "unknown to the scheduler" if outcome is None else outcome.state
    return f"job {step.job} ({ended}): {log_lines[-1][:200] if log_lines else 'it left no log'}"


def submitted(
    todo: Todo,
    facts: ClusterFacts,
    folder: Folder,
    scheduler: Scheduler,
    *,
    settings: CalibrationSettings,
) -> CalibrationStep:
    """Submit the job for one node or a pair, through the first candidate that accepts it."""
    kind, part, names = todo.kind, todo.what, [node.name for node in todo.nodes]
    script, present = folder.file(kind.name, part, "sh"), folder.file(kind.name, part, "json")
    result = folder.result(kind.name, part)
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        if result is not None and result.complete:  # outdated
            present.replace(present.with_suffix(OLDER))
        script.write_text(_script(todo, folder, scheduler, settings), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{script.parent} cannot be written: {error.strerror}") from None
    refused = []
    for candidate in kind.candidates_of(names, facts, settings.judged_limit_s):
        job = NodeJob(
            name=f"calibrate-{'-'.join(names)}",
            script=script,
            output=folder.file(kind.name, part, "log"),
            queue=candidate.queue,
            node=names[0],
            time_limit_s=settings.time_limit_s,
            account=settings.account,
            qos=settings.qos,
            second_node=names[1] if len(names) > 1 else None,
            gres=f"{candidate.gres}:1" if kind.platform.is_gpu and candidate.gres else None,
        )
        try:
            job_id = scheduler.submit(scheduler.node_command(job))
        except BerthError as error:
            refused.append(f"{scheduler.queue_word} {candidate.queue}: {error.message}")
            continue
        return CalibrationStep(kind=kind.name, node=part, job=job_id, queue=candidate.queue)
    return CalibrationStep(kind=kind.name, node=part, problem="; ".join(refused))


def _script(todo: Todo, folder: Folder, scheduler: Scheduler, settings: CalibrationSettings) -> str:
    kind, into = todo.kind, str(folder.file(todo.kind.name, todo.what, "json"))
    if todo.second is not None:
        words = [berth_command(), "pilot", "link", "--nodes", todo.what, "--into", into]
        words += ["--launcher", scheduler.pair_launcher or ""]
        return f"#!/bin/sh\nexec {shlex.join(words)}\n"
    words = [
        *(berth_command(), "pilot", "node", "--name", kind.name, "--node", todo.what),
        *("--into", into),
    ]
    if kind.platform.is_gpu:
        return f"#!/bin/sh\nexec {shlex.join([*words, '--gpu'])}\n"
    if settings.depth == "quick":
        words += ["--kernels", ",".join(QUICK_KERNELS)]
    if settings.depth == "full":
        words.append("--full")
    return f"#!/bin/sh\nexec {shlex.join(words)}\n"
