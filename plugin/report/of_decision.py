"""Reports decisions: a table of them, and one explained with all its candidates."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from berth.pilot.units import counted, format_bytes, format_elapsed, format_moment, format_seconds
from berth.plugin.report.of_outcomes import in_a_line
from berth.plugin.report.parts import Column, Part, Table, at_most, data_of, interval, seconds
from berth.plugin.store import DecisionRecord, PlacedRun, Store

if TYPE_CHECKING:
    from berth.plugin.scheduler import PresentJob
    from berth.plugin.users.client import RemoteStore

Alternative = Mapping[str, Any]
"""A candidate in the stored record of a decision (``plugin.daemon.record``)."""


@dataclass(frozen=True, slots=True)
class DecidedJob:
    """A decision, and the outcomes of its jobs."""

    record: DecisionRecord
    outcomes: Sequence[PlacedRun] = ()
    now: PresentJob | None = None
    """The job as the scheduler has it now; None: it has ended, or the scheduler was not asked."""


def makespan_text(makespan: Mapping[str, Any] | None) -> str:
    """Return an array's makespan as text: ``60 tasks, 4 at a time: 30 s``."""
    if makespan is None:
        return ""
    waits = f" after {format_seconds(makespan['wait_s'])}" if makespan["wait_s"] else ""
    return (
        f"{makespan['tasks']} tasks, {makespan['at_once']} at a time{waits}: "
        f"{format_seconds(makespan['seconds'])}"
    )


def _predicted_s(decision: DecidedJob) -> float | None:
    """Return the predicted seconds for the place where the job ran, else for the chosen candidate;
    None: there is no prediction."""
    for outcome in decision.outcomes:
        if outcome.predicted_s is not None:
            return outcome.predicted_s
    chosen = decision.record.chosen
    for row in json.loads(decision.record.ranked) if chosen else ():
        if row["candidate"] == chosen and row.get("runtime_s"):
            return float(row["runtime_s"][1])
    return None


def _ran_s(decision: DecidedJob) -> list[float]:
    return [
        outcome.elapsed_s
        for outcome in decision.outcomes
        if outcome.elapsed_s is not None and outcome.state == "completed"
    ]


def _median_s(decision: DecidedJob) -> float | None:
    ran_s = _ran_s(decision)
    return statistics.median(ran_s) if ran_s else None


def _ran(decision: DecidedJob) -> str | None:
    """Return how long the job ran as text; for an array, the median of the completed tasks and
    their number."""
    ended, median_s = decision.outcomes, _median_s(decision)
    if not ended:
        return None
    text = ended[0].state if median_s is None else format_elapsed(median_s)
    return f"{text} ({len(_ran_s(decision))} of {len(ended)})" if len(ended) > 1 else text


DECISIONS: tuple[Column[DecidedJob], ...] = (
    Column("ID", "id", lambda d: d.record.id, in_brief=True),
    Column("Time", "time_s", lambda d: d.record.time_s, format_moment, "s", in_brief=True),
    Column("User", "user", lambda d: d.record.user, in_brief=True),
    Column("Workload", "workload", lambda d: d.record.workload, in_brief=True),
    Column("Mode", "mode", lambda d: d.record.mode),
    Column("Action", "action", lambda d: d.record.action),
    Column("Code", "code", lambda d: d.record.code, in_brief=True),
    Column("Chosen", "chosen", lambda d: d.record.chosen, in_brief=True),
    Column("Based on", "ground", lambda d: d.record.ground),
    seconds("Predicted", "predicted_s", _predicted_s),
    Column("Ran", "ran_s", _median_s, unit="s", words=_ran, in_brief=True),
    Column("Took", "latency_us", lambda d: d.record.latency_us, "{} us".format, "us"),
)
"""The columns of a table of decisions."""


def _job_id(decision: DecidedJob) -> str | None:
    if decision.now is not None:
        return decision.now.job_id
    return decision.outcomes[0].job_id if decision.outcomes else None


def _state(decision: DecidedJob) -> str | None:
    if decision.now is not None:
        return "running" if decision.now.running else "pending"
    return decision.outcomes[0].state if decision.outcomes else None


def _queue(decision: DecidedJob) -> str | None:
    if decision.now is not None:
        return ",".join(decision.now.queues)
    ran_in = decision.outcomes[0].partition if decision.outcomes else None
    return ran_in or decision.record.queue


def _cores_used(decision: DecidedJob) -> float | None:
    """Return the mean number of busy cores of the job's first run; None: not recorded."""
    run = decision.outcomes[0] if decision.outcomes else None
    if run is None or run.cpu_time_s is None or run.elapsed_s <= 0:
        return None
    return run.cpu_time_s / run.elapsed_s


def _of_cores(decision: DecidedJob) -> str | None:
    used = _cores_used(decision)
    return None if used is None else f"{used:.1f} of {decision.outcomes[0].cores or '?'}"


def _peak_bytes(decision: DecidedJob) -> int | None:
    return max((run.peak_bytes for run in decision.outcomes if run.peak_bytes), default=None)


def _answer_text(decision: DecidedJob) -> str:
    record = decision.record
    if record.action == "edit":
        return f"changed: {record.chosen or record.code}"
    return f"as written: {record.code}"


LISTED: tuple[Column[DecidedJob], ...] = (
    Column("Job", "job", _job_id, missing="?"),
    Column("State", "state", _state),
    Column("User", "user", lambda d: d.record.user),
    Column("Account", "account", lambda d: d.record.account),
    Column("Partition", "queue", _queue),
    Column("Berth's answer", "action", lambda d: d.record.action, words=_answer_text),
    Column("Why", "reason", lambda d: d.record.reason),
    Column("Workload", "workload", lambda d: d.record.workload),
    seconds("Predicted", "predicted_s", _predicted_s),
    Column("Ran", "ran_s", _median_s, unit="s", words=_ran),
    Column("Cores used", "cores_used", _cores_used, kind=float, words=_of_cores),
    Column("Peak memory", "peak_bytes", _peak_bytes, format_bytes, "bytes"),
    Column("Submitted", "time_s", lambda d: d.record.time_s, format_moment, "s"),
)
"""The columns of the page's list of jobs."""

CANDIDATES: tuple[Column[Alternative], ...] = (
    Column("Candidate", "candidate", lambda row: row["candidate"]),
    Column("Platform", "platform", lambda row: row["platform"]),
    interval("Time", "time_s", lambda row: row.get("runtime_s") or row.get("predicted_s"),
             kind=list[float]),
    at_most("Host memory <=", "host_memory_bytes", lambda row: row.get("host_memory_bytes"),
             kind=list[float]),
    at_most("GPU memory <=", "gpu_memory_bytes", lambda row: row.get("gpu_memory_bytes"),
             kind=list[float]),
    Column("Basis", "basis", lambda row: row.get("basis")),
    Column("From", "source", lambda row: row.get("source")),
    Column("Why not", "why_not", lambda row: row.get("excluded") or row.get("warning")
           or makespan_text(row.get("makespan")) or None),
)  # fmt: skip
"""The columns of a decision's candidates."""


def decided(store: Store | RemoteStore, records: Sequence[DecisionRecord]) -> list[DecidedJob]:
    """Return decisions with their jobs' outcomes. Raises StoreError."""
    ended = store.outcomes.of_decisions([record.id for record in records])
    return [DecidedJob(record, ended.get(record.id, [])) for record in records]


def decided_one(store: Store | RemoteStore, record: DecisionRecord) -> DecidedJob:
    """Return one decision with its jobs' outcomes. Raises StoreError."""
    return DecidedJob(record, store.outcomes.of_decision(record.id))


def decisions_table(decisions: Sequence[DecidedJob]) -> Table[DecidedJob]:
    """Return a table with a line for each decision."""
    return Table("Decisions, newest first", DECISIONS, decisions)


def listed_jobs(
    decisions: Sequence[DecidedJob], *, links: Sequence[str | None]
) -> Table[DecidedJob]:
    """Return the page's table with a line for each job."""
    return Table("Jobs, newest first", LISTED, decisions, links=links)


def decision_data(decision: DecidedJob) -> dict[str, Any]:
    """Return all stored data of a decision, for JSON."""
    data = asdict(decision.record) | data_of(DECISIONS, decision)
    data |= {key: json.loads(data[key]) for key in ("request", "edits")}
    ranked = json.loads(decision.record.ranked)
    return data | {"ranked": [row | data_of(CANDIDATES, row) for row in ranked]}


def asked_and_answered(decision: DecidedJob) -> Part:
    """Return the report section with a job's request, Berth's reply and the job's outcome."""
    record = decision.record
    request, edits = json.loads(record.request), json.loads(record.edits)
    size = f", size {request['size']:g}" if request.get("size") else ""
    account = f" ({record.account})" if record.account else ""
    answer = "changed" if record.action == "edit" else "as written"
    facts = [
        ("asked", f"by {record.user}{account}: {_asked(record, request)}"),
        ("workload", f"{record.workload or 'none'}{size}"),
        ("answer", f"{answer} ({record.code}), within {record.latency_us} us"),
    ]
    if edits:
        verb = "changed" if record.action == "edit" else "would change"
        facts.append((verb, ", ".join(f"{key}={value}" for key, value in edits.items())))
    if record.bundle:
        facts.append(("made by", f"policy {record.policy}, bundle {record.bundle}"))
    facts.append(("inputs", record.inputs_digest or "-"))
    facts += [("outcome", in_a_line(outcome)) for outcome in decision.outcomes]
    return Part("What was asked and answered", facts=facts)


def decision_part(decision: DecidedJob) -> Part:
    """Return the report section that explains one decision."""
    record, part = decision.record, asked_and_answered(decision)
    table = candidates_table(record)
    return replace(
        part, lines=[heading(record), record.reason, ""], tables=[table] if table.records else ()
    )


def candidates_table(record: DecisionRecord) -> Table[Alternative]:
    """Return the table of the decision's candidates."""
    return Table("Places that were looked at", CANDIDATES, json.loads(record.ranked))


def heading(record: DecisionRecord) -> str:
    """Return a decision's heading: id, time, host and mode."""
    return f"{record.id}  {format_moment(record.time_s)}  {record.host}  mode {record.mode}"


def _asked(record: DecisionRecord, request: Mapping[str, Any]) -> str:
    parts = [f"queue {record.queue}" if record.queue else "no queue"]
    if request.get("tasks"):
        cores = counted(request["cpus_per_task"], "core")
        parts.append(f"{counted(request['tasks'], 'task')} of {cores}")
    if request.get("nodes"):
        parts.append(counted(request["nodes"], "node"))
    if request.get("gpus"):
        parts.append(counted(request["gpus"], "GPU"))
    if request.get("memory_bytes_per_node"):
        parts.append(f"{format_bytes(request['memory_bytes_per_node'])} a node")
    if request.get("array_tasks", 1) > 1:
        most = request.get("array_at_once")
        parts.append(
            f"{request['array_tasks']} tasks" + (f", at most {most} at a time" if most else "")
        )
    if request.get("time_limit_s"):
        parts.append(f"limit {format_seconds(request['time_limit_s'])}")
    return ", ".join(parts)
