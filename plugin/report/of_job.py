"""Reports a job: the decision and its reasons, the job's state, its prediction and its outcome."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from berth.pilot.units import (
    format_bytes,
    format_elapsed,
    format_ended,
    format_moment,
    format_seconds,
)
from berth.pilot.usage.record import Usage
from berth.plugin.history.disagreements import by_trust, value_text
from berth.plugin.pictures.charts import TimeBar, ranked_times
from berth.plugin.report.known_job import Elsewhere, KnownJob
from berth.plugin.report.of_decision import (
    DecidedJob,
    asked_and_answered,
    candidates_table,
    heading,
)
from berth.plugin.report.of_outcomes import in_a_line
from berth.plugin.report.parts import Part, Picture, Report, drawn, sentence
from berth.plugin.scheduler.jobs import NO_WAITING_ENDS
from berth.plugin.store import DecisionRecord, PlacedRun

_OTHERS = 5
_NOW = "now"


def _queue(job: KnownJob) -> str | None:
    if job.now is not None:
        return job.now.queue
    return None if job.outcome is None else job.outcome.partition or None


def job_report(
    decision: DecidedJob,
    job: KnownJob | None,
    *,
    usages: Sequence[Usage] = (),
    pictures: bool = True,
) -> Report:
    """Return the report of one decision.

    ``job``: the scheduler's job, None where it is unknown; ``usages``: what is recorded of its use.
    """
    record, outcomes = decision.record, decision.outcomes
    parts = []
    if job is not None:
        lines = [line for fact in FACTS if not fact.is_elsewhere for line in fact.sentences(job)]
        parts.append(Part("How it stands", list(map(sentence, lines))))
    if usages and outcomes:
        asked_bytes = json.loads(record.request).get("memory_bytes_per_node")
        parts.append(usage_part(usages, outcomes[0], asked_bytes))
    ranked = json.loads(record.ranked)
    if ranked:
        drawings = _times(ranked, outcomes) if pictures else ()
        parts.append(Part("Places", pictures=drawings, tables=[candidates_table(record)]))
    asked = asked_and_answered(decision)
    facts = [*asked.facts, ("decision", " ".join(heading(record).split()))]
    job_id = outcomes[0].job_id if outcomes else job.job if job is not None else None
    whose = f"{record.user}, {format_moment(record.time_s)}"
    title = f"Job {job_id} ({whose})" if job_id else f"Decision {record.id} ({whose})"
    return Report(title, record.reason, [*parts, replace(asked, facts=facts)])


def undecided_report(job: KnownJob) -> Report:
    """Return the report of a job without a decision, or whose decision is not shown."""
    summary = "Berth decided nothing about this job." if job.not_shown is None else job.not_shown
    return Report(f"Job {job.job}", summary, [now_part(job)])


def now_part(job: KnownJob) -> Part:
    """Return the report section with the job's state, as ``berth why`` prints it."""
    first, *more = (line for fact in FACTS for line in fact.sentences(job))
    return Part("How it stands", [f"job {job.job}: {first}", *more])


def why_data(job: KnownJob) -> dict[str, Any]:
    """Return what ``berth why --json`` prints: the records, and each fact's sentences."""
    return asdict(job) | {"facts": {fact.name: fact.sentences(job) for fact in FACTS}}


def why_text(job: KnownJob) -> str:
    """Return the job's state as text for the terminal; all lines but the first are indented."""
    first, *more = now_part(job).lines
    return "\n".join([first, *(f"  {line}" for line in more)])


def _problem(job: KnownJob) -> list[str]:
    return [] if job.problem is None else [f"the scheduler could not be asked: {job.problem}"]


def decided_sentence(decision: DecisionRecord | None, queue: str | None = None) -> str:
    """Return a sentence on what Berth decided about the job; None as ``decision``: Berth did not
    decide. ``queue``: the queues where the job is, None where that is not known."""
    if decision is None:
        return (
            "the submit filter decided nothing about it: it opted out (berth:off), was submitted "
            "without Berth, or was placed by berth place or berth pilot submit --then-place"
        )
    if decision.action == "edit":
        written = json.loads(decision.edits).get("queue")
        if written and queue and not set(queue.split(",")) <= set(written.split(",")):
            return f"moved again since Berth sent it to {written}: {decision.reason}"
        return f"why there: {decision.reason}"
    if decision.chosen is None:
        reason = decision.reason.removeprefix("Left as it is: ")
        return f"left as it was asked ({decision.code}, mode {decision.mode}): {reason}"
    if decision.edits == "{}":
        return f"why there: it asked for what Berth would choose; {decision.reason}"
    return f"left as it was asked (mode {decision.mode}); Berth would choose: {decision.reason}"


def _standing(job: KnownJob) -> str:
    now, outcome = job.now, job.outcome
    if now is not None and now.state == "pending":
        start = "the scheduler gives no estimate of its start"
        if now.start_s is not None:
            moment = format_moment(now.start_s)
            wait_s = max(0.0, now.start_s - time.time())
            start = f"expected to start {moment} (in {format_seconds(wait_s)}), by the scheduler"
        waits = now.waits_for or "what the scheduler does not say"
        if not waits.startswith(NO_WAITING_ENDS):
            waits = f"waits for {waits}"
        return f"pending in {now.queue}, {waits}; {start}"
    if now is not None and now.state == "running":
        ran = "" if now.elapsed_s is None else f" for {format_elapsed(now.elapsed_s)}"
        return f"running{ran} in {now.queue} on {now.nodes}{_left(job)}"
    if outcome is not None:
        return in_a_line(outcome).partition(": ")[2]
    if now is not None:
        ran = "" if now.elapsed_s is None else f" {format_ended(now.elapsed_s)}"
        return f"{now.state}{ran} in {now.queue}; its outcome is not stored yet"
    return "the scheduler knows it no more, and its outcome is not stored"


def _expected(job: KnownJob) -> list[str]:
    if job.expected is None:
        return [f"no estimate by Berth: {job.unexpected}"] if job.unexpected else []
    now_s, start = time.time(), job.expected
    low, mid, high = (_until(s - now_s) for s in (start.low_s, start.mid_s, start.high_s))
    begins = mid if mid == _NOW else f"in {mid}"
    return [f"expected to start {begins} ({low} to {high}), by a live replay of the queue"]


def _until(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "later"
    return _NOW if seconds < 1.0 else format_seconds(seconds)


def _left(job: KnownJob) -> str:
    if job.there is None or job.now is None or job.now.elapsed_s is None:
        return ""
    predicted_s = job.there.runtime_s[1]
    left_s = predicted_s - job.now.elapsed_s
    if left_s <= 0:
        return f"; predicted {format_seconds(predicted_s)}, which it has reached"
    return f"; about {format_seconds(left_s)} left by its prediction"


def _comparison(job: KnownJob) -> list[str]:
    lines = []
    if job.there is not None and job.outcome is None:
        low, mid, high = map(format_seconds, job.there.runtime_s)
        lines.append(f"predicted there: {mid} ({low} to {high}), from {job.there.source or '-'}")
    if job.outcome is not None and job.outcome.use is not None:
        use = job.outcome.use
        counts = "counts" if use == "used" else f"does not count as a time ({use})"
        lines.append(f"for later forecasts it {counts}")
    return lines


def others_sentences(elsewhere: Sequence[Elsewhere]) -> list[str]:
    """Return sentences on the predicted run times at other candidates, for at most ``_OTHERS`` of
    them."""
    lines = [f"{other.place} instead: {_instead(other)}" for other in elsewhere[:_OTHERS]]
    if len(elsewhere) > _OTHERS:
        lines.append(f"and {len(elsewhere) - _OTHERS} other places: berth jobs decisions")
    return lines


def _instead(other: Elsewhere) -> str:
    """Return as text the job's predicted time at another candidate, or why the candidate was not
    chosen."""
    time_there = None if other.seconds is None else format_seconds(other.seconds)
    if other.is_guess:
        guess = f"{time_there} is only a guess" if time_there else "there is only a guess"
        return f"{guess}, which Berth does not act on: {other.why_not}"
    if other.why_not is not None:
        return f"ruled out: {other.why_not}" + (f" (predicted {time_there})" if time_there else "")
    if time_there is None:
        return "the job fits there, too" if other.only_fits else "it fits, but ranks far behind"
    return f"predicted {time_there}" + (f" ({other.makespan})" if other.makespan else "")


class JobFact(NamedTuple):
    """Something that ``berth why`` and the job's page say of a job."""

    name: str
    """The key in JSON."""
    sentences: Callable[[KnownJob], list[str]]
    """Returns the sentences; empty: there is nothing to say of this job."""
    is_elsewhere: bool = False
    """Whether a decision's own report says it in another section."""


def _decision(job: KnownJob) -> list[str]:
    return [job.not_shown or decided_sentence(job.decision, _queue(job))]


FACTS: tuple[JobFact, ...] = (
    JobFact("state", lambda job: [_standing(job)]),
    JobFact("problem", _problem),
    JobFact("start", _expected),
    JobFact("decision", _decision, is_elsewhere=True),
    JobFact("ground", lambda job: list(job.ground)),
    JobFact("prediction", _comparison),
    JobFact("elsewhere", lambda job: others_sentences(job.elsewhere), is_elsewhere=True),
)
"""The facts of a job in their order: a new one is a line here."""


def _times(ranked: Sequence[dict[str, Any]], outcomes: Sequence[PlacedRun]) -> tuple[Picture, ...]:
    rows = [
        TimeBar(row["candidate"], tuple(seconds), bool(row.get("excluded")))
        for row in ranked
        if (seconds := row.get("runtime_s") or row.get("predicted_s"))
    ]
    took_s = [o.elapsed_s for o in outcomes if o.state == "completed" and o.elapsed_s]
    if not rows:
        return ()
    return drawn(
        "What was predicted for each place, with 90 % intervals"
        + ("; what really came is the dashed line" if took_s else ""),
        lambda: ranked_times(rows, took_s=took_s[0] if took_s else None),
    )


_USED: Mapping[str, str] = {
    "cpu_time_s": "Processor time",
    "peak_bytes": "Host memory at most",
    "gpus": "GPUs",
    "gpu_peak_bytes": "GPU memory at most",
    "gpu_utilisation": "GPU busy",
    "gpu_memory_utilisation": "GPU memory busy",
    "disk_read_bytes": "Read from disk",
    "disk_written_bytes": "Written to disk",
    "oom_kills": "Processes killed for memory",
    "cpu_stalled_s": "Waited for a core",
    "memory_stalled_s": "Waited for memory",
    "io_stalled_s": "Waited for storage",
}
"""Names for people of a usage's values (``berth.pilot.usage.record.VALUES``), in their order."""


def usage_part(
    usages: Sequence[Usage], outcome: PlacedRun, asked_bytes: float | None = None
) -> Part:
    """Return the report section on what was recorded of one job.

    ``asked_bytes``: the memory per node that the job asked for; None: not known.
    """
    facts = []
    for key, name in _USED.items():
        recorded = by_trust(usages, key)
        if not recorded:
            continue
        best, *others = recorded
        text = _used_text(key, best.value)
        if key == "cpu_time_s" and outcome.elapsed_s and outcome.cores:
            busy = best.value / outcome.elapsed_s
            text += f": {busy:.1f} of {outcome.cores} cores busy ({busy / outcome.cores:.0%})"
        elif key == "peak_bytes" and asked_bytes:
            text += f" of {format_bytes(asked_bytes)} asked ({best.value / asked_bytes:.0%})"
        sources = [
            best.source,
            *(f"{each.source}: {_used_text(key, each.value)}" for each in others),
        ]
        facts.append((name, f"{text} ({'; '.join(sources)})"))
    lacks = [f"{usage.source} lacks: {usage.lacks}" for usage in usages if usage.lacks]
    return Part("What it used", facts=facts, notes=lacks)


def _used_text(key: str, value: float) -> str:
    return format_elapsed(value) if key.endswith("_s") else value_text(key, value)
