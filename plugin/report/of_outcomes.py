"""Outcomes: predicted against real times, job by job and summed up, and what placements saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from berth.pilot.units import format_elapsed, format_ended, format_seconds
from berth.plugin.outcomes.accuracy import Accuracy, is_inside, real_over_predicted
from berth.plugin.report.parts import Column, Table, data_of, table_of
from berth.plugin.store import OutcomeRecord

if TYPE_CHECKING:
    from berth.plugin.outcomes.gain import Gain, Gains


def _percent(share: float) -> str:
    return f"{share:.0%}"


def predicted_time(outcome: OutcomeRecord) -> str | None:
    """Return ``60 s (50 s to 72 s)``; None where nothing was predicted."""
    low_s, mid_s, high_s = (
        outcome.predicted_low_s,
        outcome.predicted_s,
        outcome.predicted_high_s,
    )
    if low_s is None or mid_s is None or high_s is None:
        return None
    return f"{format_seconds(mid_s)} ({format_seconds(low_s)} to {format_seconds(high_s)})"


def error_text(outcome: OutcomeRecord) -> str | None:
    """Return ``+3 %``, with ``outside`` where the interval did not hold; None: not compared."""
    factor = real_over_predicted(outcome)
    if factor is None:
        return None
    return f"{factor - 1:+.0%}" + ("" if is_inside(outcome) else " outside")


def _coverage_text(row: Accuracy) -> str | None:
    if row.coverage is None or row.coverage_low is None or row.coverage_high is None:
        return None
    return f"{row.coverage:.0%} ({row.coverage_low:.0%} to {row.coverage_high:.0%})"


def _hours(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{format_elapsed(abs(seconds))}"


JOBS: tuple[Column[OutcomeRecord], ...] = (
    Column("Job", "job_id", lambda o: o.job_id),
    Column("User", "user", lambda o: o.user),
    Column("Queue", "queue", lambda o: o.queue),
    Column("State", "state", lambda o: o.state),
    Column("Workload", "workload", lambda o: o.workload),
    Column("Platform", "platform", lambda o: o.platform),
    Column("Predicted", "", predicted_time),
    Column("Ran", "elapsed_s", lambda o: o.elapsed_s, format_elapsed),
    Column("Error", "", error_text),
)
"""A line for each job that has run."""
SHORT = ("Job", "User", "State", "Ran", "Error")
"""Titles of the columns that ``--short`` keeps."""

ACCURACY: tuple[Column[Accuracy], ...] = (
    Column("Ended", "jobs", lambda row: row.jobs),
    Column("Compared", "compared", lambda row: row.compared),
    Column("Timeouts", "timeouts", lambda row: row.timeouts),
    Column("Median error", "median_error", lambda row: row.median_error, _percent),
    Column("90 % of them", "p90_error", lambda row: row.p90_error,
           lambda share: f"under {_percent(share)}"),
    Column("Real/predicted", "bias", lambda row: row.bias, "{:.2f}".format),
    Column("Inside 90 %", "", _coverage_text),
    Column("Verdict", "verdict", lambda row: row.verdict),
    Column("", "overruns", lambda row: row.overruns),
    Column("", "coverage", lambda row: row.coverage),
    Column("", "coverage_low", lambda row: row.coverage_low),
    Column("", "coverage_high", lambda row: row.coverage_high),
)  # fmt: skip
"""How good the predictions of one group of jobs were."""
_GROUPS = {"placed": "placed by Berth", "kept": "left where asked"}

GAIN: tuple[Column[Gain], ...] = (
    Column("Jobs", "", lambda gain: _GROUPS[gain.group]),
    Column("Ended", "", lambda gain: gain.jobs),
    Column("Programs", "", lambda gain: gain.programs),
    Column("Ran", "", lambda gain: gain.real_s, _hours),
    Column("Elsewhere", "", lambda gain: gain.other_s, _hours),
    Column("Saved", "", lambda gain: gain.saved_s, _hours),
    Column("90 %", "", lambda gain: gain.saved_interval_s,
           lambda ends: f"{_hours(ends[0])} to {_hours(ends[1])}"),
    Column("Faster", "", lambda gain: gain.speedup, "{:.2f} x".format),
    Column("90 %", "", lambda gain: gain.speedup_interval,
           lambda ends: f"{ends[0]:.2f} to {ends[1]:.2f}"),
)  # fmt: skip
"""What placements saved or cost one group of jobs in run time."""


def jobs_table(outcomes: Sequence[OutcomeRecord], *, short: bool = False) -> Table:
    """Return a line for each job that has run."""
    columns = [column for column in JOBS if column.title in SHORT] if short else JOBS
    return table_of("Jobs that have run", columns, outcomes)


def outcome_data(outcome: OutcomeRecord) -> Mapping[str, Any]:
    """Return everything kept of an outcome, for JSON."""
    return asdict(outcome) | data_of(JOBS, outcome)


def accuracy_columns(by: str) -> tuple[Column[Accuracy], ...]:
    """Return the columns of predicted against real times, summed up by ``by``."""
    return (Column(by.capitalize(), "name", lambda row: row.name), *ACCURACY)


def accuracy_table(rows: Sequence[Accuracy], by: str) -> Table:
    """Return predicted against real times, summed up by ``by``."""
    return table_of(f"Predicted against real times, by {by}", accuracy_columns(by), rows)


def accuracy_data(row: Accuracy, by: str) -> Mapping[str, Any]:
    """Return one group's figures, for JSON."""
    return data_of(accuracy_columns(by), row)


def gain_table(gains: Gains) -> Table:
    """Return run times against those in the other place."""
    return table_of("Run time against the other place", GAIN, gains.groups)


def gain_notes(gains: Gains) -> list[str]:
    """Return what the table of gains does not say, in sentences."""
    lines = []
    if not gains.groups:
        lines.append("no job has both a measured time and a prediction for another place")
    corrected = {place: factor for one in gains.groups for place, factor in one.corrections.items()}
    for place, factor in sorted(corrected.items()):
        if factor != 1.0:
            lines.append(
                f"predictions for {place} are taken times {factor:.2f}: so long took what ran there"
            )
    if gains.not_completed:
        lines.append(f"{gains.not_completed} placed jobs did not complete: not counted here")
    if gains.not_comparable:
        lines.append(f"{gains.not_comparable} jobs have no prediction for the other place")
    if gains.groups:
        lines.append(
            "the time elsewhere is predicted, not measured, and jobs are moved where it is "
            "predicted to be long: what was saved is rather less than more"
        )
    return lines


def in_a_line(outcome: OutcomeRecord) -> str:
    """Return what became of a job, for the explanation of its decision."""
    text = f"job {outcome.job_id}: {outcome.state}"
    if outcome.elapsed_s is not None:
        text += f" {format_ended(outcome.elapsed_s)}"
    if outcome.queue:
        text += f" in {outcome.queue}"
    if outcome.predicted_s is not None:
        text += f", predicted {predicted_time(outcome) or '-'}"
    compared = error_text(outcome)
    return text if compared is None else f"{text}: {compared}"
