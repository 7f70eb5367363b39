"""Reports what placements saved or cost, measured against control jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from berth.pilot.units import J_PER_KWH, format_elapsed
from berth.plugin.pictures.charts import ShareBar, shares
from berth.plugin.report.parts import Column, Part, Picture, Table, drawn
from berth.policies.codes import Ground

if TYPE_CHECKING:
    from berth.plugin.outcomes.measured_gain import MeasuredGain

GROUNDS: Mapping[str, str] = {
    Ground.FIT: "fit",
    Ground.KERNELS: "benchmark kernels",
    Ground.POPULATION: "the site's ratio between kinds of nodes",
    Ground.RUNS: "own runs",
    Ground.MEASURED: "a pilot",
    Ground.DESCRIBED: "a described model",
}
"""What a decision can be based on, in words."""
MOST_PROGRAMS = 10
"""Number of programs with a line of their own, those whose jobs took the most time."""


def _hours(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{format_elapsed(abs(seconds))}"


def _kilowatt_hours(joules: float) -> str:
    return f"{joules / J_PER_KWH:,.1f} kWh"


_WRITE: Mapping[str, Callable[[float], str]] = {
    "time": _hours,
    "wait": _hours,
    "run": _hours,
    "cost": "{:,.2f}".format,
    "energy": _kilowatt_hours,
}
_TITLES = {"time": "time to end", "wait": "of it the wait", "run": "of it the run", "cost": "cost",
           "energy": "energy"}  # fmt: skip


_CONTROL = {"written": "jobs left as written", "list": "jobs with the plain list of partitions"}
"""Says in words what control jobs are."""


def _of(gain: MeasuredGain) -> str:
    title = _TITLES[gain.quantity] if gain.program is None else f"time to end, {gain.program}"
    return f"{title}, against the list" if gain.control == "list" else title


def _saved(gain: MeasuredGain) -> str | None:
    return None if gain.saved is None else _WRITE[gain.quantity](gain.saved)


def _saved_interval(gain: MeasuredGain) -> str | None:
    if gain.saved_interval is None:
        return None
    low, high = map(_WRITE[gain.quantity], gain.saved_interval)
    return f"{low} to {high}"


def _counts(jobs: int, failed: int) -> str:
    return f"{jobs} ({failed} failed)" if failed else str(jobs)


MEASURED: tuple[Column[MeasuredGain], ...] = (
    Column("Of", "quantity", lambda gain: gain.quantity, words=_of),
    Column("Control", "control", lambda gain: gain.control, for_people=False),
    Column("Program", "program", lambda gain: gain.program, for_people=False),
    Column("Changed", "jobs", lambda gain: gain.jobs,
           words=lambda gain: _counts(gain.jobs, gain.failed), kind=float),
    Column("Failed", "failed", lambda gain: gain.failed, for_people=False, kind=float),
    Column("Controls", "controls", lambda gain: gain.controls,
           words=lambda gain: _counts(gain.controls, gain.controls_failed), kind=float),
    Column("Controls failed", "controls_failed", lambda gain: gain.controls_failed,
           for_people=False, kind=float),
    Column("Users", "users", lambda gain: gain.users, kind=float),
    Column("Control/changed", "ratio", lambda gain: gain.ratio, "{:.2f}".format, kind=float),
    Column("95 %", "ratio_interval", lambda gain: gain.ratio_interval,
           lambda ends: f"{ends[0]:.2f} to {ends[1]:.2f}", ends=("low", "high")),
    Column("Saved", "saved", lambda gain: gain.saved, words=_saved, kind=float),
    Column("95 %", "saved_interval", lambda gain: gain.saved_interval, words=_saved_interval,
           ends=("low", "high")),
)  # fmt: skip
"""The columns of what changed jobs took against control jobs."""


def gain_part(measured: Sequence[MeasuredGain], grounds: Mapping[str, int]) -> Part:
    """Return the report section on what placements saved or cost.

    ``grounds``: number of jobs by what their decision was based on.
    """
    counts = ", ".join(f"{grounds[g]} {GROUNDS[g]}" for g in Ground if g in grounds)
    notes = (
        [f"decisions of jobs that ended, by what they were based on: {counts}"] if counts else []
    )
    if not measured:
        unknown = (
            'Not known: no job was left as written to compare with. control = "written" in '
            "[policy] of the site file leaves 5 % of the jobs as written and measures it."
        )
        return Part("", [unknown], notes=notes)
    totals = [gain for gain in measured if gain.program is None]
    verdicts = [_verdict(gain) for gain in totals if gain.quantity == "time"]
    programs = [gain for gain in measured if gain.program is not None and gain.ratio_interval]
    shown = [g for g in (*totals, *programs[:MOST_PROGRAMS]) if g.mismatch is None]
    tables = [Table("Changed jobs against control jobs", MEASURED, shown)] if shown else []
    return Part("", verdicts or [TOO_FEW], tables=tables, notes=notes)


def gain_pictures(measured: Sequence[MeasuredGain]) -> tuple[Picture, ...]:
    """Return a picture of what control jobs took over what changed jobs took, with intervals."""
    rows = [
        ShareBar(_of(gain), gain.ratio_interval[0], gain.ratio or 1.0, gain.ratio_interval[1])
        for gain in measured
        if gain.program is None and gain.ratio_interval is not None and gain.mismatch is None
    ]
    if not rows:
        return ()
    label = "control jobs over changed jobs, % (right of the line: the changes help)"
    return drawn(
        "What control jobs took over what changed jobs took, with 95 % intervals",
        lambda: shares(rows, promised=1.0, label=label),
    )


TOO_FEW = "Too few jobs ended, of changed ones and of control jobs, to say what was gained."


def _verdict(gain: MeasuredGain) -> str:
    if gain.mismatch is not None:
        return f"No verdict: {gain.mismatch}."
    if gain.ratio is None or gain.ratio_interval is None:
        return TOO_FEW
    low, high = gain.ratio_interval
    ends, control = f"95 % interval {low:.2f} to {high:.2f}", _CONTROL[gain.control]
    if gain.is_clear and low > 1:
        return (
            f"Berth's changes help: {control} take {gain.ratio:.2f} times as long from "
            f"submission to a completed end ({ends})."
        )
    if gain.is_clear:
        return (
            f"Berth's changes harm: against {control}, those that it changed take "
            f"{1 / gain.ratio:.2f} times as long from submission to a completed end "
            f"(95 % interval {1 / high:.2f} to {1 / low:.2f})."
        )
    more = gain.more_days or 0.0
    needed = (
        f"about {more:.0f} more days like these until a gain of 10 % could be told from none"
        if more >= 0.5
        else "a gain of 10 % would show already"
    )
    return (
        f"No gain or loss can be told yet: {control} take {gain.ratio:.2f} times as "
        f"long ({ends}); {needed}."
    )
