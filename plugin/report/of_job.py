"""A job: what was decided and why, how it stands, what was predicted and what came."""

from __future__ import annotations

import json
import re
from typing import Any

from berth.plugin.cli.jobs.decisions import as_text, places_cells
from berth.plugin.cli.jobs.why import Why, text
from berth.plugin.pictures.charts import Row, ranked_times
from berth.plugin.report.parts import Part, Picture, Report, Table, drawn
from berth.plugin.store import DecisionRecord, OutcomeRecord, Store
from berth.plugin.users.client import RemoteStore

_LABELLED = re.compile(
    r"(asked|workload|answer|changed|would change|made by|inputs|outcome)\s+(.*)"
)
_PLACES = (
    "Candidate", "Platform", "Time", "90 % interval", "Host memory at most", "GPU memory at most",
    "Basis", "From", "Why not",
)  # fmt: skip


def job_report(
    store: Store | RemoteStore, record: DecisionRecord, why: Why | None, *, pictures: bool = True
) -> Report:
    """Of one decision; ``why``: of its job, where it is known. Raises StoreError."""
    rows: list[dict[str, Any]] = json.loads(record.ranked)
    outcomes = store.outcomes.of_decision(record.id)
    head, *lines = as_text(store, record, table=False).splitlines()
    found = [_LABELLED.match(line) for line in lines if line and line != record.reason]
    asked = [(one[1].capitalize(), one[2]) for one in found if one is not None]
    table = Table(" ".join(head.split()), ("What", "Is"), asked)
    parts = [Part("What was asked and answered", tables=[table])]
    if why is not None:
        parts.append(now_part(why))
    parts.append(
        Part(
            "Places",
            pictures=_times(rows, outcomes) if pictures else (),
            tables=[Table("Places that were looked at", _PLACES, places_cells(rows))],
        )
    )
    whose = outcomes[0].job_id if outcomes else why.job if why is not None else None
    title = f"Decision {record.id}" if whose is None else f"Job {whose}: decision {record.id}"
    return Report(title, record.reason, parts)


def undecided_report(why: Why) -> Report:
    """Of a job that Berth decided nothing about."""
    return Report(f"Job {why.job}", "Berth decided nothing about this job.", [now_part(why)])


def now_part(why: Why) -> Part:
    """What ``berth why`` says."""
    return Part("How it stands", [line.strip() for line in text(why).splitlines()])


def _times(rows: list[dict[str, Any]], outcomes: list[OutcomeRecord]) -> tuple[Picture, ...]:
    shown = [
        Row(row["candidate"], tuple(seconds), bool(row.get("excluded")))
        for row in rows
        if (seconds := row.get("runtime_s") or row.get("predicted_s"))
    ]
    took = [o.elapsed_s for o in outcomes if o.state == "completed" and o.elapsed_s]
    if not shown:
        return ()
    return drawn(
        "What was predicted for each place, with 90 % intervals"
        + ("; what really came is the dashed line" if took else ""),
        lambda: ranked_times(shown, took_s=took[0] if took else None),
    )
