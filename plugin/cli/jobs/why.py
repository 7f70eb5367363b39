"""``berth why``: one job, from its submission to its end."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.units import format_elapsed, format_ended, format_seconds
from berth.plugin.cli.jobs.decisions import decision_of_job, makespan_text
from berth.plugin.cli.jobs.outcomes import in_a_line
from berth.plugin.cli.options.where import open_view, store_options
from berth.plugin.cli.output.columns import columns
from berth.plugin.scheduler import SCHEDULERS, JobNow
from berth.plugin.scheduler.jobs import NO_WAITING_ENDS
from berth.plugin.store import DecisionRecord, OutcomeRecord, Store
from berth.plugin.store.records import EvidenceRecord
from berth.plugin.users.client import RemoteStore
from berth.policies.codes import NOT_ACTED_ON

if TYPE_CHECKING:
    from berth.plugin.cli.replay.live import Start

_OTHERS = 5
_NOW = "now"
_SHORT = ("JOB", "STATE", "QUEUE", "CODE", "PREDICTED", "STARTS", "WAITS FOR")


@dataclasses.dataclass(frozen=True, slots=True)
class There:
    """What was predicted for the place that the job was sent to."""

    runtime_s: tuple[float, float, float]
    """Low, middle and high."""
    source: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Elsewhere:
    """What another place would have meant."""

    place: str
    seconds: float | None
    """Predicted then; None: nothing was, or it was not kept."""
    why_not: str | None
    """Why it was ruled out; None: it fitted."""
    is_guess: bool = False
    """Whether what was predicted was too uncertain to act on."""
    makespan: str = ""
    """Of an array that fitted: how long all its tasks take there, in words."""


@dataclasses.dataclass(frozen=True, slots=True)
class Why:
    """All that is known of a job."""

    job: str
    now: JobNow | None
    decision: DecisionRecord | None
    outcome: OutcomeRecord | None
    evidence: EvidenceRecord | None
    there: There | None
    elsewhere: tuple[Elsewhere, ...]
    expected: Start | None
    """When it starts by a live replay; None: it does not wait, or too little is known."""
    unexpected: str | None
    """Why there is no such estimate."""
    problem: str | None
    """Why the scheduler could not be asked; None: it could."""


@click.command()
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--short", is_flag=True, help="A line a job, as squeue has them.")
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
@store_options
def why(
    jobs: tuple[str, ...],
    *,
    short: bool,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Explain a job: why it is where it is, what it waits for, what was predicted and what came.

    Works for pending, running and finished jobs. When it will start is the scheduler's own
    estimate and, where there is a site file, that of a live replay with its 90 % interval.

    \b
    Example:
      berth why 4711
      berth why --short 4711 4712
    """
    store = open_view(site_file, store_url)
    found = [explained(store, job, site_file) for job in jobs]
    if json_:
        data = [dataclasses.asdict(one) for one in found]
        click.echo(json.dumps(data if len(data) > 1 else data[0], indent=2))
    elif short:
        click.echo(columns(_SHORT, [_cells(one) for one in found], indent=0))
    else:
        click.echo("\n".join(text(one) for one in found))


def _cells(found: Why) -> tuple[str, ...]:
    """One line of ``--short``."""
    now, outcome, decision = found.now, found.outcome, found.decision
    state = now.state if now is not None else outcome.state if outcome is not None else "?"
    queue = now.queue if now is not None else outcome.queue if outcome is not None else None
    start, waits = "-", (now.waits_for if now is not None else None) or "-"
    if found.expected is not None and math.isfinite(found.expected.mid_s):
        start = time.strftime("%m-%d %H:%M", time.localtime(found.expected.mid_s))
    predicted = "-" if found.there is None else format_seconds(found.there.runtime_s[1])
    code = "-" if decision is None else decision.code
    return found.job, state, queue or "-", code, predicted, start, waits


def explained(store: Store | RemoteStore, job: str, site_file: Path | None = None) -> Why:
    """What the store and the scheduler know. Raises UsageError where neither knows the job."""
    now, problem, known = _now(job)
    outcome = next((o for name in known if (o := store.outcomes.of_job(name))), None)
    decision = None
    try:
        name = outcome.decision if outcome and outcome.decision else decision_of_job(store, job)
        decision = store.decisions.get(name)
    except UsageError:
        if now is None and outcome is None:
            raise
    evidence = None
    if isinstance(store, Store) and outcome is not None:
        evidence = store.learning.of_job(outcome.job_id, cluster=outcome.cluster)
    rows: list[dict[str, Any]] = [] if decision is None else json.loads(decision.ranked)
    chosen = None if decision is None else decision.chosen
    here = outcome.candidate if outcome is not None and outcome.candidate else chosen
    elsewhere = tuple(_elsewhere(row) for row in rows if row["candidate"] != here)
    expected, unexpected = None, None
    if now is not None and now.state == "pending":
        from berth.plugin.cli.replay.live import start_of  # noqa: PLC0415 - numpy

        for name in known:
            expected, unexpected = start_of(name, site_file, store)
            if expected is not None:
                break
    there = _there(rows, chosen)
    return Why(
        job, now, decision, outcome, evidence, there, elsewhere, expected, unexpected, problem
    )


def _now(job: str) -> tuple[JobNow | None, str | None, list[str]]:
    """By the first scheduler that knows it; why one could not be asked; ids as stores have them."""
    problem, known = None, [job]
    for kind in SCHEDULERS.load_all().values():
        scheduler = kind()
        job_id = scheduler.job_id(job)
        if job_id is None:
            continue
        known.append(job_id)
        if not scheduler.is_here():
            continue
        try:
            found = scheduler.job_now(job_id)
        except BerthError as error:
            problem = error.message
            continue
        if found is not None:
            return found, None, list(dict.fromkeys(known))
    return None, problem, list(dict.fromkeys(known))


def _there(rows: Sequence[Mapping[str, Any]], chosen: str | None) -> There | None:
    for row in rows:
        if row["candidate"] == chosen and row.get("runtime_s"):
            low, mid, high = row["runtime_s"]
            return There((low, mid, high), row.get("source"))
    return None


def _elsewhere(row: Mapping[str, Any]) -> Elsewhere:
    runtime = row.get("runtime_s") or row.get("predicted_s")
    code = row.get("code")
    return Elsewhere(
        row["candidate"],
        runtime[1] if runtime else None,
        row.get("excluded") or None,
        code in {one.value for one in NOT_ACTED_ON},
        makespan_text(row.get("makespan")),
    )


def text(found: Why) -> str:
    """A few lines for a person."""
    lines = [f"job {found.job}: {_standing(found)}"]
    if found.problem is not None:
        lines.append(f"  the scheduler could not be asked: {found.problem}")
    lines += _expected(found)
    lines.append(f"  {_decided(found.decision)}")
    lines += _comparison(found)
    lines += _others(found.elsewhere)
    return "\n".join(lines)


def _decided(decision: DecisionRecord | None) -> str:
    """Why it is where it is: what Berth did, or would have done."""
    if decision is None:
        return (
            "the submit filter decided nothing about it: it opted out (berth:off), was submitted "
            "without Berth, or was placed by berth place or berth pilot submit --then-place"
        )
    if decision.action == "edit":
        return f"why there: {decision.reason}"
    if decision.chosen is None:
        reason = decision.reason.removeprefix("Left as it is: ")
        return f"left as it was asked ({decision.code}, mode {decision.mode}): {reason}"
    if decision.edits == "{}":
        return f"why there: it asked for what Berth would choose; {decision.reason}"
    return f"left as it was asked (mode {decision.mode}); Berth would choose: {decision.reason}"


def _standing(found: Why) -> str:
    now, outcome = found.now, found.outcome
    if now is not None and now.state == "pending":
        start = "the scheduler gives no estimate of its start"
        if now.start_s is not None:
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now.start_s))
            wait_s = max(0.0, now.start_s - time.time())
            start = f"expected to start {moment} (in {format_seconds(wait_s)}), by the scheduler"
        waits = now.waits_for or "what the scheduler does not say"
        if not waits.startswith(NO_WAITING_ENDS):
            waits = f"waits for {waits}"
        return f"pending in {now.queue}, {waits}; {start}"
    if now is not None and now.state == "running":
        ran = "" if now.elapsed_s is None else f" for {format_elapsed(now.elapsed_s)}"
        return f"running{ran} in {now.queue} on {now.nodes}{_left(found)}"
    if outcome is not None:
        return in_a_line(outcome).partition(": ")[2]
    if now is not None:
        ran = "" if now.elapsed_s is None else f" {format_ended(now.elapsed_s)}"
        return f"{now.state}{ran} in {now.queue}; its outcome is not stored yet"
    return "the scheduler knows it no more, and its outcome is not stored"


def _expected(found: Why) -> list[str]:
    if found.expected is None:
        return [f"  no estimate by Berth: {found.unexpected}"] if found.unexpected else []
    now_s, one = time.time(), found.expected
    low, mid, high = (_until(moment - now_s) for moment in (one.low_s, one.mid_s, one.high_s))
    start = mid if mid == _NOW else f"in {mid}"
    return [f"  expected to start {start} ({low} to {high}), by a live replay of the queue"]


def _until(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "later"
    return _NOW if seconds < 1.0 else format_seconds(seconds)


def _left(found: Why) -> str:
    if found.there is None or found.now is None or found.now.elapsed_s is None:
        return ""
    predicted_s = found.there.runtime_s[1]
    left_s = predicted_s - found.now.elapsed_s
    if left_s <= 0:
        return f"; predicted {format_seconds(predicted_s)}, which it has reached"
    return f"; about {format_seconds(left_s)} left by its prediction"


def _comparison(found: Why) -> list[str]:
    lines = []
    there = found.there
    if there is not None and found.outcome is None:
        low, mid, high = map(format_seconds, there.runtime_s)
        lines.append(f"  predicted there: {mid} ({low} to {high}), from {there.source or '-'}")
    if found.evidence is not None:
        use = found.evidence.use
        counts = "counts" if use == "used" else f"does not count as a time ({use})"
        lines.append(f"  for later forecasts it {counts}")
    return lines


def _others(elsewhere: Sequence[Elsewhere]) -> list[str]:
    lines = [f"  {one.place} instead: {_instead(one)}" for one in elsewhere[:_OTHERS]]
    if len(elsewhere) > _OTHERS:
        lines.append(f"  and {len(elsewhere) - _OTHERS} other places: berth jobs decisions")
    return lines


def _instead(one: Elsewhere) -> str:
    """What another place would have meant: its time, and why it is not acted on."""
    time_there = None if one.seconds is None else format_seconds(one.seconds)
    if one.is_guess:
        guess = f"{time_there} is only a guess" if time_there else "there is only a guess"
        return f"{guess}, which Berth does not act on: {one.why_not}"
    if one.why_not is not None:
        return f"ruled out: {one.why_not}" + (f" (predicted {time_there})" if time_there else "")
    if time_there is None:
        return "it fits, but ranks far behind"
    return f"predicted {time_there}" + (f" ({one.makespan})" if one.makespan else "")
