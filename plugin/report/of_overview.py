"""Reports at a glance whether Berth is on, what it did, whether it helped, and what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from berth.pilot.errors import BerthError
from berth.pilot.units import counted
from berth.plugin.findings import Finding, Status, worst_first
from berth.plugin.outcomes.accuracy import MOST_COUNTED, newest_jobs, newest_only, summarise
from berth.plugin.outcomes.measured_gain import gains_of
from berth.plugin.pictures.charts import counts_by_day
from berth.plugin.report.of_gain import GROUNDS, gain_part, gain_pictures
from berth.plugin.report.of_installation import FINDINGS
from berth.plugin.report.of_site import compared_times
from berth.plugin.report.parts import (
    Column,
    Part,
    Picture,
    Report,
    Table,
    drawn,
    part,
    sentence,
)
from berth.plugin.site import Site
from berth.plugin.site.changes_now import changes_now
from berth.plugin.store import Store
from berth.plugin.store.records import RunSums
from berth.policies.codes import PLACES, Code

DAY_S = 86_400.0
WEEK = "last 7 days"
AGAIN = "look again in some seconds."
"""The end of a sentence in the place of figures that are being made."""
MOST_REASONS = 8
"""Number of reasons for which jobs were left alone that have a line of their own."""
Links = Callable[[str, str], str | None]
"""Returns the address of a list of jobs: by ``code``, or by ``action``, and its value."""


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """One kind of answer, with the number of jobs that got it."""

    words: str
    action: str
    """``edit``, or ``keep`` for jobs that stayed as they were."""
    code: str
    """The code of these decisions; empty: several."""
    day: int
    week: int
    example: str | None = None
    """The sentence of the newest of these decisions."""


@dataclass(frozen=True, slots=True)
class WeekFigures:
    """What the store says of the last week; made beside the page, as it takes a second."""

    answers: Part
    gain: Part
    accuracy: Part
    failures: Part


@dataclass(frozen=True, slots=True)
class Slices:
    """The MIG slices of one candidate, as the daemon last saw them."""

    candidate: str
    platform: str
    free: int
    waiting: int


def overview_report(
    site: Site,
    *,
    findings: Callable[[], Sequence[Finding] | None],
    figures: Callable[[], WeekFigures | None],
    stats: Callable[[], Mapping[str, Any]],
    findings_link: str = "",
) -> Report:
    """Return the first page for an administrator.

    The functions may raise BerthError; None: not ready yet. ``stats``: the daemon's answer.
    """
    try:
        state: Mapping[str, Any] | None = stats()
    except BerthError:
        state = None
    lead = changes_now(site, state).sentence

    def places() -> Mapping[str, Mapping[str, Any]]:
        known: Mapping[str, Mapping[str, Any]] = (stats() if state is None else state)["places"]
        return known

    def of_figures(name: str) -> Callable[[], Part]:
        def read() -> Part:
            known = figures()
            if known is None:
                return Part("", [f"The store is being read: {AGAIN}"])
            section: Part = getattr(known, name)
            return section

        return read

    return Report(
        f"Overview of {site.name}",
        lead,
        [
            part("What is wrong", lambda: _wrong(findings(), findings_link)),
            part("What it did", of_figures("answers")),
            part(f"Did it help ({WEEK})", of_figures("gain")),
            part(f"Jobs that failed ({WEEK})", of_figures("failures")),
            part(f"Do predicted times hold ({WEEK})", of_figures("accuracy")),
            *_slices(site, places),
        ],
    )


def _wrong(findings: Sequence[Finding] | None, link: str) -> Part:
    if findings is None:
        return Part("", [f"The doctor is looking: {AGAIN}"])
    bad = [finding for finding in worst_first(findings) if finding.status is not Status.OK]
    if not bad:
        return Part("", [f"Nothing: berth site doctor made {counted(len(findings), 'check')}."])
    worst = bad[:3]
    table = Table("The worst findings of berth site doctor", FINDINGS, worst,
                  links=[link or None] * len(worst))  # fmt: skip
    return Part("", [f"{len(bad)} of {len(findings)} findings need attention."], tables=[table])


def store_figures(store: Store, site: Site, link: Links) -> WeekFigures:
    """Return the figures of the last week. Raises BerthError."""
    now_s = time.time()
    ended, count = newest_jobs(store, now_s - 7 * DAY_S, now_s + DAY_S)
    measured, grounds = gains_of(store, ended, site)
    gain = gain_part(measured, grounds)
    all_jobs = summarise(ended, "state")[-1:]
    lines = [
        f"{row.coverage:.0%} of {row.compared:,} real times lie inside the 90 % interval: "
        f"{row.verdict}; median error {row.median_error or 0:.0%}."
        for row in all_jobs
        if row.coverage is not None
    ]
    bound = newest_only("jobs", len(ended), count)
    failures = _failures(store, ended)
    return WeekFigures(
        _answers(store, now_s, link),
        Part(
            "",
            [*gain.lines, *map(sentence, bound)],
            gain_pictures(measured),
            gain.tables,
            notes=gain.notes,
        ),
        Part("", lines or ["No job with a predicted time has completed."], compared_times(ended)),
        replace(
            failures,
            lines=[*failures.lines, *map(sentence, newest_only("jobs", len(ended), count))],
        ),
    )


def _answers(store: Store, now_s: float, link: Links) -> Part:
    since = [store.decisions.answered(now_s - days * DAY_S, MOST_COUNTED) for days in range(1, 8)]
    day, week = since[0], since[-1]
    if not week:
        return Part("", ["No job was submitted in the last 7 days."])
    rows = [
        AnswerCount(f"changed, based on {GROUNDS.get(ground, 'what is predicted')}", "edit", "",
                _sum(day, "edit", ground=ground), _sum(week, "edit", ground=ground))
        for ground in dict.fromkeys(ground for action, _, ground in week if action == "edit")
    ]  # fmt: skip
    rows.sort(key=lambda row: -row.week)
    left = {code: _sum(week, "keep", code=code) for action, code, _ in week if action == "keep"}
    by_size = sorted(left, key=lambda code: (-left[code], code))
    rows += [
        AnswerCount(
            _left(code),
            "keep",
            code,
            _sum(day, "keep", code=code),
            left[code],
            next((newest.reason for newest in store.decisions.last(1, code=code)), None),
        )
        for code in by_size[:MOST_REASONS]
    ]
    if rest := by_size[MOST_REASONS:]:
        in_day = sum(_sum(day, "keep", code=code) for code in rest)
        in_week = sum(left[code] for code in rest)
        rows.append(AnswerCount("left alone: other reasons", "keep", "", in_day, in_week))
    links = [link("code", r.code) if r.code else link("action", r.action) for r in rows]
    lines = [
        f"Last {span}: {_sum(counts, 'edit'):,} of {sum(counts.values()):,} jobs were changed."
        for span, counts in (("day", day), ("7 days", week))
    ]
    tables = [Table("Jobs by answer", _ANSWERS, rows, links=links)]
    return Part("", lines, _by_day(since, now_s), tables)


def _by_day(since: Sequence[Mapping[tuple[str, str, str], int]], now_s: float) -> Sequence[Picture]:
    """Return a picture of the jobs of each of the last days, from those since 1, 2 ... days."""
    sums = [(0, 0), *((sum(counts.values()), _sum(counts, "edit")) for counts in since)]
    days = [
        (time.strftime("%a %d", time.localtime(now_s - number * DAY_S)), every - later, edit - of)
        for number, ((later, of), (every, edit)) in enumerate(pairwise(sums))
    ]
    words = "Jobs submitted in the 24 hours before this time of each day, and those changed"
    return drawn(words, lambda: counts_by_day(days[::-1]))


_ANSWERS: tuple[Column[AnswerCount], ...] = (
    Column("Answer", "answer", lambda row: row.words),
    Column("Last day", "day", lambda row: row.day, "{:,}".format, kind=float),
    Column("Last 7 days", "week", lambda row: row.week, "{:,}".format, kind=float),
    Column("The newest of them", "example", lambda row: row.example),
)


def _left(code: str) -> str:
    if code == Code.CONTROL:
        return "left as written: control jobs"
    if code in PLACES:
        return f"not changed: asked for what Berth would choose, or not mode enforce ({code})"
    return f"left alone: {code}"


def _sum(
    counts: Mapping[tuple[str, str, str], int],
    action: str,
    *,
    code: str | None = None,
    ground: str | None = None,
) -> int:
    return sum(
        number
        for (of_action, of_code, of_ground), number in counts.items()
        if of_action == action and code in (None, of_code) and ground in (None, of_ground)
    )


def _failures(store: Store, ended: Sequence[RunSums]) -> Part:
    """Return how many of the changed jobs failed, and how many of the others."""
    changed_ids = store.decisions.changed({job.decision for job in ended if job.decision})
    lines = []
    for words, is_changed in (("changed by Berth", True), ("left as written", False)):
        of_kind = [
            job
            for job in ended
            if (job.decision in changed_ids) == is_changed and job.state != "cancelled"
        ]
        failed = sum(job.state != "completed" for job in of_kind)
        if of_kind:
            share = failed / len(of_kind)
            lines.append(f"Of {len(of_kind):,} jobs {words} {failed:,} failed ({share:.1%}).")
    return Part("", lines or ["No job with a decision of Berth's has ended."])


_SLICES: tuple[Column[Slices], ...] = (
    Column("Place", "candidate", lambda row: row.candidate),
    Column("Slice", "platform", lambda row: row.platform),
    Column("Free now", "free", lambda row: row.free, kind=float),
    Column("Jobs that wait", "waiting", lambda row: row.waiting, kind=float),
)


def _slices(site: Site, places: Callable[[], Mapping[str, Mapping[str, Any]]]) -> list[Part]:
    if not any(candidate.slice_of is not None for candidate in site.candidates):
        return []

    def read() -> Part:
        rows = [
            Slices(name, place["platform"], place["idle_gpus"] or 0, place["pending_jobs"] or 0)
            for name, place in sorted(places().items())
            if place["slices"]
        ]
        nothing = "The daemon has not read the state of any slice yet."
        return Part("", tables=[Table("MIG slices", _SLICES, rows, if_empty=nothing)])

    return [part("GPU slices", read)]
