"""Reports outcomes: predicted and real times by job and in total, and the gain of placements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from berth.pilot.units import format_elapsed, format_ended
from berth.plugin.outcomes.accuracy import Accuracy, is_inside, real_over_predicted
from berth.plugin.report.parts import Column, Part, Table, interval
from berth.plugin.store import OutcomeRecord
from berth.policies.codes import Ground

if TYPE_CHECKING:
    from berth.plugin.outcomes.gain import Gain, Gains


def _predicted(outcome: OutcomeRecord) -> tuple[float, float, float] | None:
    """Return low, middle and high of the prediction in seconds; None: nothing was predicted."""
    low_s, mid_s, high_s = (
        outcome.predicted_low_s,
        outcome.predicted_s,
        outcome.predicted_high_s,
    )
    return None if low_s is None or mid_s is None or high_s is None else (low_s, mid_s, high_s)


def _error(outcome: OutcomeRecord) -> float | None:
    """Return real over predicted time, less 1; None: there is nothing to compare."""
    ratio = real_over_predicted(outcome)
    return None if ratio is None else ratio - 1


def error_text(outcome: OutcomeRecord) -> str | None:
    """Return the error as text, ``+3 %``, with ``outside`` where the real time is outside the
    interval; None: there is no prediction to compare."""
    error = _error(outcome)
    return None if error is None else f"{error:+.0%}" + ("" if is_inside(outcome) else " outside")


def _coverage_text(row: Accuracy) -> str | None:
    if row.coverage is None or row.coverage_low is None or row.coverage_high is None:
        return None
    return f"{row.coverage:.0%} ({row.coverage_low:.0%} to {row.coverage_high:.0%})"


def _hours(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{format_elapsed(abs(seconds))}"


_PREDICTED: Column[OutcomeRecord] = interval("Predicted", "predicted", _predicted)
JOBS: tuple[Column[OutcomeRecord], ...] = (
    Column("Job", "job_id", lambda o: o.job_id, in_short=True),
    Column("User", "user", lambda o: o.user, in_short=True),
    Column("Queue", "queue", lambda o: o.queue),
    Column("State", "state", lambda o: o.state, in_short=True),
    Column("Workload", "workload", lambda o: o.workload),
    Column("Platform", "platform", lambda o: o.platform),
    _PREDICTED,
    Column("Ran", "elapsed_s", lambda o: o.elapsed_s, format_elapsed, "s", in_short=True),
    Column("Error", "error", _error, words=error_text, in_short=True),
)
"""The columns of a table of finished jobs."""

ACCURACY: tuple[Column[Accuracy], ...] = (
    Column("Ended", "jobs", lambda row: row.jobs),
    Column("Compared", "compared", lambda row: row.compared),
    Column("Timeouts", "timeouts", lambda row: row.timeouts),
    Column("Median error", "median_error", lambda row: row.median_error, "{:.0%}".format),
    Column("90 % of them", "p90_error", lambda row: row.p90_error, "under {:.0%}".format),
    Column("Real/predicted", "bias", lambda row: row.bias, "{:.2f}".format),
    Column("Inside 90 %", "coverage", lambda row: row.coverage, words=_coverage_text),
    Column("Verdict", "verdict", lambda row: row.verdict),
)
"""The columns of the predictions' accuracy for groups of jobs."""
GROUNDS: Mapping[str, str] = {
    Ground.FIT: "fit",
    Ground.KERNELS: "benchmark kernels",
    Ground.POPULATION: "the site's ratio between kinds of nodes",
    Ground.RUNS: "own runs",
    Ground.MEASURED: "a pilot",
    Ground.DESCRIBED: "a described model",
}
"""What a decision can be based on, in words."""
_GROUPS = {"placed": "placed by Berth", "kept": "left where asked"}

GAIN: tuple[Column[Gain], ...] = (
    Column("Jobs", "group", lambda gain: gain.group, _GROUPS.__getitem__),
    Column("Ended", "jobs", lambda gain: gain.jobs),
    Column("Programs", "programs", lambda gain: gain.programs),
    Column("Ran", "real_s", lambda gain: gain.real_s, _hours, "s"),
    Column("Elsewhere", "other_s", lambda gain: gain.other_s, _hours, "s"),
    Column("Saved", "saved_s", lambda gain: gain.saved_s, _hours, "s"),
    Column("90 %", "saved_interval_s", lambda gain: gain.saved_interval_s,
           lambda ends: f"{_hours(ends[0])} to {_hours(ends[1])}", "s", ends=("low", "high")),
    Column("Faster", "speedup", lambda gain: gain.speedup, "{:.2f} x".format),
    Column("90 %", "speedup_interval", lambda gain: gain.speedup_interval,
           lambda ends: f"{ends[0]:.2f} to {ends[1]:.2f}", ends=("low", "high")),
)  # fmt: skip
"""The columns of the run time that placements saved or cost each group of jobs."""


def jobs_table(outcomes: Sequence[OutcomeRecord], *, short: bool = False) -> Table[OutcomeRecord]:
    """Return a table with a line for each finished job."""
    columns = [column for column in JOBS if column.in_short or not short]
    return Table("Jobs that have run", columns, outcomes)


def accuracy_table(rows: Sequence[Accuracy], by: str) -> Table[Accuracy]:
    """Return a table of predicted against real times, a line for each group of jobs by the
    attribute ``by``."""
    group: Column[Accuracy] = Column(by.capitalize(), "name", lambda row: row.name)
    return Table(f"Predicted against real times, by {by}", (group, *ACCURACY), rows)


def gain_part(gains: Gains) -> Part:
    """Return the report section that compares real run times with those predicted for another
    place."""
    nothing = "no job has both a measured time and a prediction for another place"
    table = Table("Run time against the other place", GAIN, gains.groups, if_empty=nothing)
    return Part("", tables=[table], notes=_gain_notes(gains))


def _gain_notes(gains: Gains) -> list[str]:
    """Return notes on the table of gains."""
    lines = []
    if gains.grounds:
        counts = (f"{gains.grounds[g]} {GROUNDS[g]}" for g in Ground if g in gains.grounds)
        lines.append(
            f"decisions of jobs that ended, by what they were based on: {', '.join(counts)}"
        )
    corrected = {
        place: factor for group in gains.groups for place, factor in group.corrections.items()
    }
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
    """Return a job's outcome in one line, for the explanation of its decision."""
    text = f"job {outcome.job_id}: {outcome.state}"
    if outcome.elapsed_s is not None:
        text += f" {format_ended(outcome.elapsed_s)}"
    if outcome.queue:
        text += f" in {outcome.queue}"
    if outcome.predicted_s is not None:
        text += f", predicted {_PREDICTED.cell(outcome)}"
    compared = error_text(outcome)
    return text if compared is None else f"{text}: {compared}"
