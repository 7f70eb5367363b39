"""Reports outcomes: predicted and real times by job and in total."""

from __future__ import annotations

from collections.abc import Sequence

from berth.pilot.units import format_elapsed, format_ended
from berth.plugin.outcomes.accuracy import Accuracy, is_inside, real_over_predicted
from berth.plugin.report.parts import Column, Table, interval
from berth.plugin.store import PlacedRun


def _predicted(outcome: PlacedRun) -> tuple[float, float, float] | None:
    low_s, mid_s, high_s = (
        outcome.predicted_low_s,
        outcome.predicted_s,
        outcome.predicted_high_s,
    )
    return None if low_s is None or mid_s is None or high_s is None else (low_s, mid_s, high_s)


def _error(outcome: PlacedRun) -> float | None:
    """Return real over predicted time, less 1; None: there is nothing to compare."""
    ratio = real_over_predicted(outcome)
    return None if ratio is None else ratio - 1


def error_text(outcome: PlacedRun) -> str | None:
    """Return the error as text, ``+3 %``, with ``outside`` where the real time is outside the
    interval; None: there is no prediction to compare."""
    error = _error(outcome)
    return None if error is None else f"{error:+.0%}" + ("" if is_inside(outcome) else " outside")


def _coverage_text(row: Accuracy) -> str | None:
    if row.coverage is None or row.coverage_low is None or row.coverage_high is None:
        return None
    return f"{row.coverage:.0%} ({row.coverage_low:.0%} to {row.coverage_high:.0%})"


_PREDICTED: Column[PlacedRun] = interval("Predicted", "predicted", _predicted, kind=list[float])
JOBS: tuple[Column[PlacedRun], ...] = (
    Column("Job", "job_id", lambda o: o.job_id, in_brief=True),
    Column("User", "user", lambda o: o.user, in_brief=True),
    Column("Queue", "queue", lambda o: o.partition or None),
    Column("State", "state", lambda o: o.state, in_brief=True),
    Column("Workload", "workload", lambda o: o.workload),
    Column("Platform", "platform", lambda o: o.platform),
    _PREDICTED,
    Column("Ran", "elapsed_s", lambda o: o.elapsed_s, format_elapsed, "s", in_brief=True),
    Column("Error", "error", _error, words=error_text, in_brief=True, kind=float),
)
"""The columns of a table of finished jobs."""

ACCURACY: tuple[Column[Accuracy], ...] = (
    Column("Ended", "jobs", lambda row: row.jobs, kind=float),
    Column("Compared", "compared", lambda row: row.compared, kind=float),
    Column("Timeouts", "timeouts", lambda row: row.timeouts, kind=float),
    Column(
        "Median error", "median_error", lambda row: row.median_error, "{:.0%}".format, kind=float
    ),
    Column(
        "90 % of them", "p90_error", lambda row: row.p90_error, "under {:.0%}".format, kind=float
    ),
    Column("Real/predicted", "bias", lambda row: row.bias, "{:.2f}".format, kind=float),
    Column("Inside 90 %", "coverage", lambda row: row.coverage, words=_coverage_text, kind=float),
    Column("Verdict", "verdict", lambda row: row.verdict),
)
"""The columns of the predictions' accuracy for groups of jobs."""


def jobs_table(outcomes: Sequence[PlacedRun]) -> Table[PlacedRun]:
    """Return a table with a line for each finished job."""
    return Table("Jobs that have run", JOBS, outcomes)


def accuracy_table(rows: Sequence[Accuracy], by: str) -> Table[Accuracy]:
    """Return a table of predicted against real times, a line for each group of jobs by the
    attribute ``by``."""
    group: Column[Accuracy] = Column(by.capitalize(), "name", lambda row: row.name)
    return Table(f"Predicted against real times, by {by}", (group, *ACCURACY), rows)


def in_a_line(outcome: PlacedRun) -> str:
    """Return a job's outcome in one line, for the explanation of its decision."""
    text = f"job {outcome.job_id}: {outcome.state}"
    if outcome.elapsed_s:
        text += f" {format_ended(outcome.elapsed_s)}"
    if outcome.partition:
        text += f" in {outcome.partition}"
    if outcome.predicted_s is not None:
        text += f", predicted {_PREDICTED.cell(outcome)}"
    compared = error_text(outcome)
    return text if compared is None else f"{text}: {compared}"
