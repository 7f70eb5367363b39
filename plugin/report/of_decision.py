"""Decisions: a line of each, and one explained with all the candidates that were looked at."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from berth.pilot.units import counted, format_bytes, format_elapsed, format_seconds
from berth.plugin.report.of_outcomes import in_a_line
from berth.plugin.report.parts import Column, Part, Table, data_of, table_of
from berth.plugin.report.terminal import part_lines, table_text
from berth.plugin.store import DecisionRecord, OutcomeRecord, Store

if TYPE_CHECKING:
    from berth.plugin.users.client import RemoteStore

Alternative = Mapping[str, Any]
"""A candidate as the record of a decision has it (``plugin.daemon.record``)."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, and what became of the jobs that it was for."""

    record: DecisionRecord
    outcomes: Sequence[OutcomeRecord] = ()


def makespan_text(makespan: Mapping[str, Any] | None) -> str:
    """Return what the score of an array is: ``60 tasks, 4 at a time: 30 s``."""
    if makespan is None:
        return ""
    waits = f" after {format_seconds(makespan['wait_s'])}" if makespan["wait_s"] else ""
    return (
        f"{makespan['tasks']} tasks, {makespan['at_once']} at a time{waits}: "
        f"{format_seconds(makespan['seconds'])}"
    )


def moment(unix_s: float) -> str:
    """Return the local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))


def _times_s(row: Alternative) -> Sequence[float] | None:
    """Return low, middle and high of the time there."""
    return row.get("runtime_s") or row.get("predicted_s")


def _predicted_s(decision: Decided) -> float | None:
    """Return what was predicted for where the job ran, else for the choice."""
    for outcome in decision.outcomes:
        if outcome.predicted_s is not None:
            return outcome.predicted_s
    chosen = decision.record.chosen
    for row in json.loads(decision.record.ranked) if chosen else ():
        if row["candidate"] == chosen and row.get("runtime_s"):
            return float(row["runtime_s"][1])
    return None


def _ran(decision: Decided) -> str | None:
    """Return how long the job ran; of an array the median of its tasks, and of how many."""
    ended = decision.outcomes
    ran_s = [o.elapsed_s for o in ended if o.elapsed_s is not None and o.state == "completed"]
    text = format_elapsed(statistics.median(ran_s)) if ran_s else ended[0].state if ended else None
    return f"{text} ({len(ran_s)} of {len(ended)})" if len(ended) > 1 else text


def _of_json_alone(key: str) -> Column[Alternative]:
    return Column("", key, lambda row: row.get(key))


DECISIONS: tuple[Column[Decided], ...] = (
    Column("ID", "id", lambda d: d.record.id),
    Column("Time", "time_s", lambda d: d.record.time_s, moment),
    Column("User", "user", lambda d: d.record.user),
    Column("Workload", "workload", lambda d: d.record.workload),
    Column("Mode", "mode", lambda d: d.record.mode),
    Column("Action", "action", lambda d: d.record.action),
    Column("Code", "code", lambda d: d.record.code),
    Column("Chosen", "chosen", lambda d: d.record.chosen),
    Column("Predicted", "predicted_s", _predicted_s, format_seconds),
    Column("Ran", "", _ran),
    Column("Took", "latency_us", lambda d: d.record.latency_us, lambda us: f"{us} us"),
)
"""A line for each decision."""
SHORT = ("ID", "Time", "User", "Workload", "Code", "Chosen", "Ran")
"""Titles of the columns that ``--short`` keeps."""

CANDIDATES: tuple[Column[Alternative], ...] = (
    Column("Candidate", "candidate", lambda row: row["candidate"]),
    Column("Platform", "platform", lambda row: row["platform"]),
    Column("Time", "", _times_s, lambda times: format_seconds(times[1])),
    Column("90 %", "", _times_s,
           lambda times: "{} to {}".format(*map(format_seconds, times[::2]))),
    Column("Host memory <=", "host_memory_bytes", lambda row: row.get("host_memory_bytes"),
           lambda bounds: format_bytes(bounds[2])),
    Column("GPU memory <=", "gpu_memory_bytes", lambda row: row.get("gpu_memory_bytes"),
           lambda bounds: format_bytes(bounds[2])),
    Column("Basis", "basis", lambda row: row.get("basis")),
    Column("From", "source", lambda row: row.get("source")),
    Column("Why not", "", lambda row: row.get("excluded") or row.get("warning")
           or makespan_text(row.get("makespan"))),
    *map(
        _of_json_alone,
        ("nodes", "cores", "gpus", "score", "runtime_s", "predicted_s", "speedup", "cost", "code",
         "excluded", "warning", "makespan", "explored"),
    ),
)  # fmt: skip
"""The candidates that were looked at for a job, best first."""


def decided(store: Store | RemoteStore, records: Sequence[DecisionRecord]) -> list[Decided]:
    """Return decisions with what became of their jobs. Raises StoreError."""
    ended = store.outcomes.of_decisions([record.id for record in records])
    return [Decided(record, ended.get(record.id, [])) for record in records]


def decided_one(store: Store | RemoteStore, record: DecisionRecord) -> Decided:
    """Return one decision with what became of its jobs. Raises StoreError."""
    return Decided(record, store.outcomes.of_decision(record.id))


def decisions_table(
    decisions: Sequence[Decided], *, short: bool = False, links: Sequence[str | None] = ()
) -> Table:
    """Return a line for each decision."""
    columns = [one for one in DECISIONS if one.title in SHORT] if short else DECISIONS
    return table_of("Decisions, newest first", columns, decisions, links=links)


def decision_data(decision: Decided) -> dict[str, Any]:
    """Return everything kept of a decision, for JSON."""
    data = asdict(decision.record)
    data |= {key: json.loads(data[key]) for key in ("request", "edits")}
    ranked = [data_of(CANDIDATES, row) for row in json.loads(decision.record.ranked)]
    return data | data_of(DECISIONS, decision) | {"ranked": ranked}


def asked_and_answered(decision: Decided) -> Part:
    """Return what was asked, what was answered, and what became of the job."""
    record = decision.record
    request, edits = json.loads(record.request), json.loads(record.edits)
    size = f", size {request['size']:g}" if request.get("size") else ""
    account = f" ({record.account})" if record.account else ""
    facts = [
        ("asked", f"by {record.user}{account}: {_asked(record, request)}"),
        ("workload", f"{record.workload or 'none'}{size}"),
        ("answer", f"{record.action} ({record.code}), {record.latency_us} us"),
    ]
    if edits:
        verb = "changed" if record.action == "edit" else "would change"
        facts.append((verb, ", ".join(f"{key}={value}" for key, value in edits.items())))
    if record.bundle:
        facts.append(("made by", f"policy {record.policy}, bundle {record.bundle}"))
    facts.append(("inputs", record.inputs_digest or "-"))
    facts += [("outcome", in_a_line(outcome)) for outcome in decision.outcomes]
    return Part("What was asked and answered", facts=facts)


def decision_text(decision: Decided) -> str:
    """Return one decision explained, for a terminal."""
    record = decision.record
    lines = [
        heading(record),
        record.reason,
        "",
        *part_lines(asked_and_answered(decision), indent=0),
    ]
    table = candidates_table(record)
    if table.rows:
        lines += ["", table_text(table)]
    return "\n".join(lines)


def candidates_table(record: DecisionRecord) -> Table:
    """Return the candidates that were looked at."""
    return table_of("Places that were looked at", CANDIDATES, json.loads(record.ranked))


def heading(record: DecisionRecord) -> str:
    """Return the line that says which decision this is."""
    return f"{record.id}  {moment(record.time_s)}  {record.host}  mode {record.mode}"


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
