"""Reports a site: the checks of its setup, its calibration, and the predictions' accuracy and
gain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from berth.plugin.calibrate.state import FOLDER, Folder, program_bundle
from berth.plugin.findings import Finding, worst_first
from berth.plugin.first_site.stub import STUB_MARK
from berth.plugin.learning.shown import NewestJobs
from berth.plugin.outcomes.accuracy import (
    MOST,
    MOST_COUNTED,
    NOMINAL,
    Accuracy,
    is_inside,
    newest_jobs,
    newest_only,
    number,
    real_over_predicted,
    summarise,
)
from berth.plugin.outcomes.measured_gain import gains_of
from berth.plugin.outcomes.shadow import would_have_changed
from berth.plugin.pictures.charts import MOST_POINTS, Compared, ShareBar, real_times, shares
from berth.plugin.report.of_gain import gain_part
from berth.plugin.report.of_installation import findings_table
from berth.plugin.report.of_outcomes import accuracy_table
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
from berth.plugin.store import Store
from berth.plugin.store.records import RunSums
from berth.policies.values import Candidate
from berth.predictor.families.program.bundle import verify
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS

DAY_S = 86_400.0
DAYS = 30.0
_ACTED_ON = "programs are placed there"
_NOT_ACTED_ON = "programs are not placed there: guesses only"


def report_of(site: Site, parts: Sequence[Part]) -> Report:
    """Return the report of a site from its sections."""
    return Report(
        f"Site {site.name}",
        f"Mode {site.mode.value}, policy {site.policy.objective}, {site.source}.",
        parts,
    )


def setup_parts(site: Site, findings: Sequence[Finding]) -> list[Part]:
    """Return the sections on the site file, the calibration and the doctor's findings."""
    places = [Table("Places that jobs may be sent to", _PLACES, site.candidates)]
    return [
        Part("Places", tables=places),
        part("How far it is calibrated", lambda: _calibrated(site)),
        *([_sound(findings)] if findings else []),
    ]


def figure_parts(
    site: Site,
    store: Callable[[], Store],
    *,
    days: float = DAYS,
    pictures: bool = True,
    newest: Callable[[], NewestJobs] | None = None,
) -> list[Part]:
    """Return the sections with the figures of the last days; one whose data cannot be read says so.

    ``store`` opens the store, and may raise BerthError. ``newest``: returns the evaluation of the
    newest jobs, where it is made already. Without ``pictures`` they take half the time.
    """
    now_s = time.time()
    since_s = now_s - days * DAY_S

    @cache
    def ended() -> tuple[list[RunSums], int]:
        return newest_jobs(store(), since_s, now_s + DAY_S)

    def taught() -> NewestJobs:
        return NewestJobs(store())

    last = f"last {days:g} days"
    return [
        part(f"What was decided ({last})", lambda: _decided(store(), since_s)),
        part(f"How good predictions were ({last})",
             lambda: _accuracy(*ended(), pictures=pictures)),
        part("What changed", lambda: _changes((newest or taught)(), since_s)),
        part(f"What placements saved ({last})", lambda: _gain(store(), *ended(), site)),
    ]  # fmt: skip


_PLACES: tuple[Column[Candidate], ...] = (
    Column("Candidate", "candidate", lambda place: place.name),
    Column("Partition", "queue", lambda place: place.queue),
    Column("Platform", "platform", lambda place: place.platform),
    Column("Cores a node", "cores_per_node", lambda place: place.cores_per_node, kind=float),
    Column("GPUs a node", "gpus_per_node", lambda place: place.gpus_per_node or None, kind=float),
)


@dataclass(frozen=True, slots=True)
class _Calibrated:
    """How far one platform is calibrated: source of its rates, nodes and kernels measured."""

    platform: str
    rates_from: str
    nodes: int | None
    """Nodes measured at this site; None: this platform was not measured as a kind of node."""
    kernels: int


_CALIBRATED: tuple[Column[_Calibrated], ...] = (
    Column("Platform", "platform", lambda row: row.platform),
    Column("Rates from", "rates_from", lambda row: row.rates_from),
    Column("Nodes measured here", "nodes", lambda row: row.nodes, kind=float),
    Column("Kernels with measured times", "kernels", lambda row: row.kernels or None, kind=float),
    Column("What that allows", "is_acted_on", lambda row: row.kernels >= CALIBRATED_KERNELS,
           lambda is_acted_on: _ACTED_ON if is_acted_on else _NOT_ACTED_ON, kind=bool),
)  # fmt: skip


class _Count(NamedTuple):
    """The number of decisions with one mode, action and code."""

    mode: str
    action: str
    code: str
    jobs: int
    share: float


_COUNTS: tuple[Column[_Count], ...] = (
    Column("Mode", "mode", lambda count: count.mode),
    Column("Action", "action", lambda count: count.action),
    Column("Code", "code", lambda count: count.code),
    Column("Jobs", "jobs", lambda count: count.jobs, "{:,}".format, kind=float),
    Column("Share", "share", lambda count: count.share, "{:.0%}".format, kind=float),
)


def _calibrated(site: Site) -> Part:
    manifest = verify(program_bundle(site.bundles))
    kernels = {entry.platform: entry.kernels for entry in manifest.labelled}
    folder = Folder(Path(site.source).absolute().parent / FOLDER)
    measured: dict[str, int] = {}
    for kind in dict.fromkeys(step.kind for step in folder.read().steps):
        measured[kind] = len(folder.results(kind))
    rows = []
    for name in dict.fromkeys(candidate.platform for candidate in site.candidates):
        platform = site.platforms[name]
        is_stub = STUB_MARK in platform.description
        rates_from = "rules of thumb" if is_stub else platform.signature.source.value
        rows.append(_Calibrated(name, rates_from, measured.get(name), kernels.get(name, 0)))
    return Part(
        "How far it is calibrated",
        [f"Programs are predicted with bundle {manifest.id}; berth site calibrate measures more."],
        tables=[Table("Platforms of the site", _CALIBRATED, rows)],
    )


def _sound(findings: Sequence[Finding]) -> Part:
    bad = sum(finding.status.value != "ok" for finding in findings)
    return Part(
        "Is it sound?",
        [f"{bad} of {len(findings)} findings need attention." if bad else "Nothing is wrong."],
        tables=[findings_table(worst_first(findings))],
    )


def _decided(store: Store, since_s: float) -> Part:
    counted = store.decisions.counted(since_s, MOST)
    total = sum(count for *_, count in counted)
    every = total if total < MOST else store.decisions.count_since(since_s, MOST_COUNTED)
    lines = [
        f"{number(every)} jobs were decided upon.",
        *map(sentence, newest_only("decisions", total, every)),
    ]
    counts = [_Count(*kind, kind[-1] / total) for kind in counted]
    lines += filter(None, [would_have_changed(store, since_s)])
    return Part("What was decided", lines, tables=[Table("Decisions", _COUNTS, counts)])


def _accuracy(ended: Sequence[RunSums], count: int, *, pictures: bool) -> Part:
    by_platform, by_workload = (summarise(ended, by) for by in ("platform", "workload"))
    tables = [accuracy_table(by_platform, "platform"), accuracy_table(by_workload, "workload")]
    return Part(
        "How good predictions were",
        [
            f"Intervals promise to hold {NOMINAL:.0%} of real times.",
            *map(sentence, newest_only("jobs", len(ended), count)),
        ],
        [*compared_times(ended), *_coverage(by_platform)] if pictures else (),
        tables,
    )


def compared_times(ended: Sequence[RunSums]) -> tuple[Picture, ...]:
    """Return a picture of these jobs' real and predicted times; empty: none has both."""
    compared = (
        Compared(job.predicted_s, job.elapsed_s, is_inside(job))
        for job in reversed(ended)
        if real_over_predicted(job) is not None and job.predicted_s and job.elapsed_s
    )
    jobs = list(islice(compared, MOST_POINTS))[::-1]
    if not jobs:
        return ()
    return drawn("Each finished job's real time over its predicted time", lambda: real_times(jobs))


def _coverage(rows: Sequence[Accuracy]) -> tuple[Picture, ...]:
    known = [
        ShareBar(row.name, row.coverage_low, row.coverage, row.coverage_high)
        for row in rows
        if row.coverage_low is not None
        and row.coverage is not None
        and row.coverage_high is not None
    ]
    if not known:
        return ()
    return drawn(
        "Share of real times inside the 90 % interval, by platform",
        lambda: shares(known, promised=NOMINAL,
                       label="real times inside the 90 % interval, % (dashed: promised)"),
    )  # fmt: skip


def _changes(newest: NewestJobs, since_s: float) -> Part:
    changes = newest.changes_since(since_s)
    lines = [*(changes.sentences or ["Nothing was noticed."]), *map(sentence, changes.bound)]
    return Part("What changed", lines)


def _gain(store: Store, ended: Sequence[RunSums], count: int, site: Site) -> Part:
    bound = newest_only("jobs", len(ended), count)
    part_of_gain = gain_part(*gains_of(store, ended, site))
    return replace(
        part_of_gain,
        lines=[*part_of_gain.lines, *map(sentence, [*part_of_gain.notes, *bound])],
        notes=(),
    )
