"""``berth jobs decisions``: what the daemon answered, and why."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.errors import UsageError
from berth.pilot.units import counted, format_bytes, format_elapsed, format_seconds
from berth.plugin.cli.jobs.outcomes import in_a_line
from berth.plugin.cli.options.where import open_view, store_options
from berth.plugin.cli.output.columns import MEMORY_HEADER, columns
from berth.plugin.store import DecisionRecord, OutcomeRecord, Store
from berth.plugin.workloads.names import caller

if TYPE_CHECKING:
    from berth.plugin.users.client import RemoteStore

_HEADER = (
    "ID", "TIME", "USER", "PROFILE", "MODE", "ACTION", "CODE", "CHOSEN", "PREDICTED", "RAN", "TOOK",
)  # fmt: skip
_SHORT = ("ID", "TIME", "USER", "PROFILE", "CODE", "CHOSEN", "RAN")
_IN_SHORT = tuple(_HEADER.index(title) for title in _SHORT)
PLACES = ("CANDIDATE", "PLATFORM", "TIME", "90 %", *MEMORY_HEADER, "BASIS", "FROM",
          "WHY NOT")  # fmt: skip
_json_option = click.option("--json", "json_", is_flag=True, help="Print JSON.")


@click.command()
@click.argument("decision", required=False, metavar="[ID]")
@click.option(
    "--last", type=click.IntRange(1, 100_000), default=20, show_default=True, help="So many."
)
@click.option("--user", help="Only of this user.")
@click.option("--code", help="Only with this code (docs/reasons.md), for example no-workload.")
@click.option("--workload", help="Only of this workload.")
@click.option("--job", help="The decision for this job id.")
@click.option("--short", is_flag=True, help="Fewer columns, as squeue has them.")
@_json_option
@store_options
def decisions(
    decision: str | None,
    *,
    last: int,
    user: str | None,
    code: str | None,
    workload: str | None,
    job: str | None,
    short: bool,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """List what was decided, newest first; or explain the decision ID.

    Of one: what was asked, what was chosen, what else there was and why not.

    \b
    Example:
      berth jobs decisions --user alice --last 5
      berth jobs decisions --short --format csv
      berth jobs decisions --job 1234
      berth jobs decisions 1m7y4whj8kbbvxmm --site /etc/berth/berth.toml
    """
    if decision is not None and job is not None:
        raise UsageError("give a decision's ID or --job, not both")
    store = open_view(site_file, store_url)
    if job is not None:
        decision = decision_of_job(store, job)
    if decision is not None:
        found = _by_id(store, decision)
        click.echo(json.dumps(as_json(found), indent=2) if json_ else as_text(store, found))
        return
    if workload is not None:
        from berth.plugin.workloads.filing import stored_for  # noqa: PLC0415 - predictor

        with suppress(UsageError):  # one that is removed by now has its name in the records
            workload = stored_for(store, workload, caller()).name
    records = store.decisions.last(last, user=user, code=code, workload=workload)
    if json_:
        click.echo(json.dumps([as_json(r) for r in records], indent=2))
        return
    if not records:
        click.echo("no decisions yet")
        return
    ended = store.outcomes.of_decisions([r.id for r in records])
    rows = [
        [
            r.id,
            moment(r.time_s),
            r.user,
            r.workload or "-",
            r.mode,
            r.action,
            r.code,
            r.chosen or "-",
            *predicted_and_ran(r, ended.get(r.id, [])),
            f"{r.latency_us} us",
        ]
        for r in records
    ]
    if short:
        rows = [[row[i] for i in _IN_SHORT] for row in rows]
    click.echo(columns(_SHORT if short else _HEADER, rows, indent=0))


def decision_of_job(store: Store | RemoteStore, job: str) -> str:
    """The id of the decision for a job, from its outcome or from its stamp in the scheduler.

    Raises UsageError where the job has none.
    """
    from berth.plugin.scheduler import SCHEDULERS  # noqa: PLC0415 - of --job alone

    schedulers = [kind() for kind in SCHEDULERS.load_all().values()]
    asked = [(s, job_id) for s in schedulers if (job_id := s.job_id(job)) is not None]
    for job_id in dict.fromkeys([*(job_id for _, job_id in asked), job]):
        outcome = store.outcomes.of_job(job_id)
        if outcome is not None and outcome.decision is not None:
            return outcome.decision
    if not asked:
        raise UsageError(f"{job!r} is not a job id")
    for scheduler, job_id in asked:
        found = scheduler.stamped(job_id)
        if found is not None:
            return found
    raise UsageError(
        f"job {job} carries no decision of Berth's",
        hint="it opted out (berth:off), was submitted without Berth, or the scheduler has "
        "forgotten it",
    )


def _by_id(store: Store | RemoteStore, decision: str) -> DecisionRecord:
    found = store.decisions.get(decision)
    if found is None:
        is_job = decision.partition("_")[0].isdecimal()  # 4711, 4711_2
        of_job = f"of job {decision}: berth jobs decisions --job {decision}"
        raise UsageError(
            f"no decision {decision!r} is in {store.name}",
            hint=of_job if is_job else "list them: berth jobs decisions",
        )
    return found


def as_json(record: DecisionRecord) -> dict[str, Any]:
    """Everything kept of a decision, as plain data."""
    data = dataclasses.asdict(record)
    for key in ("request", "edits", "ranked"):
        data[key] = json.loads(data[key])
    return data


def as_text(store: Store | RemoteStore, record: DecisionRecord, *, table: bool = True) -> str:
    """The decision explained; with a ``table`` of the places that were looked at."""
    request, edits = json.loads(record.request), json.loads(record.edits)
    ranked: list[dict[str, Any]] = json.loads(record.ranked)
    lines = [
        f"{record.id}  {moment(record.time_s)}  {record.host}  mode {record.mode}",
        record.reason,
        "",
        f"asked    by {record.user}{_of(record.account)}: {_asked(record, request)}",
        f"workload {record.workload or 'none'}"
        + (f", size {request['size']:g}" if request.get("size") else ""),
        f"answer   {record.action} ({record.code}), {record.latency_us} us",
    ]
    if edits:
        verb = "changed" if record.action == "edit" else "would change"
        lines.append(f"{verb}  " + ", ".join(f"{key}={value}" for key, value in edits.items()))
    if record.bundle:
        lines.append(f"made by  policy {record.policy}, bundle {record.bundle}")
    lines.append(f"inputs   {record.inputs_digest or '-'}")
    lines += [f"outcome  {in_a_line(o)}" for o in store.outcomes.of_decision(record.id)]
    if ranked and table:
        lines += ["", columns(PLACES, places_cells(ranked), indent=0)]
    return "\n".join(lines)


def predicted_and_ran(record: DecisionRecord, ended: list[OutcomeRecord]) -> tuple[str, str]:
    """What was predicted for where the job ran (else for the choice), and how long it ran."""
    predicted = [o.predicted_s for o in ended if o.predicted_s is not None]
    if not predicted:
        rows = json.loads(record.ranked) if record.chosen else []
        predicted = [
            row["runtime_s"][1]
            for row in rows
            if row["candidate"] == record.chosen and row.get("runtime_s")
        ]
    ran = [o.elapsed_s for o in ended if o.elapsed_s is not None and o.state == "completed"]
    text = format_elapsed(statistics.median(ran)) if ran else ended[0].state if ended else "-"
    if len(ended) > 1:
        text += f" ({len(ran)} of {len(ended)})"
    return format_seconds(predicted[0]) if predicted else "-", text


def places_cells(ranked: list[dict[str, Any]]) -> list[list[str]]:
    """A line for each place that was looked at, under ``PLACES``."""
    rows = []
    for row in ranked:
        runtime = row.get("runtime_s") or row.get("predicted_s")
        rows.append(
            [
                row["candidate"],
                row["platform"],
                "-" if runtime is None else format_seconds(runtime[1]),
                "-" if runtime is None else "{} to {}".format(*map(format_seconds, runtime[::2])),
                *(_at_most(row.get(key)) for key in ("host_memory_bytes", "gpu_memory_bytes")),
                row.get("basis") or "-",
                row.get("source") or "-",
                row.get("excluded") or row.get("warning") or makespan_text(row.get("makespan")),
            ]
        )
    return rows


def makespan_text(makespan: dict[str, Any] | None) -> str:
    """What the score of an array is: ``60 tasks, 4 at a time: 30 s``."""
    if makespan is None:
        return ""
    waits = f" after {format_seconds(makespan['wait_s'])}" if makespan["wait_s"] else ""
    return (
        f"{makespan['tasks']} tasks, {makespan['at_once']} at a time{waits}: "
        f"{format_seconds(makespan['seconds'])}"
    )


def _at_most(bounds: list[float] | None) -> str:
    return "-" if bounds is None else format_bytes(bounds[2])


def _asked(record: DecisionRecord, request: dict[str, Any]) -> str:
    parts = [
        f"queue {record.queue}" if record.queue else "no queue",
    ]
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


def _of(account: str | None) -> str:
    return f" ({account})" if account else ""


def moment(unix_s: float) -> str:
    """Local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))
