"""What ``make fresh-site`` prints: how often Berth was right, beside three rules that ask nobody.

The rules: every job to A, every job to B, where it ran last (as a pilot or a job), and by threads
only (a job of two threads to B, which has two cores, others to A, whose core is faster). Regret is
a job's time where it was sent over its time on the faster kind, as a geometric mean over all
programs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from site_programs import Program

from berth.plugin.report.parts import text_table
from berth.plugin.report.terminal import table_text

SAME = 1.1
"""Times within this factor cannot be put in the wrong order."""
NEAR = 0.03
"""Largest error of a memory that is counted as right."""
PLACES = {"full": "A", "pair": "B"}
Interval = tuple[float, float, float]
"""Lower end, middle and upper end, in seconds."""


@dataclass(frozen=True)
class Answer:
    """What the filter did with a job: where it sent it, and the times it predicted there."""

    went: str
    """The job's partition then: one place, several by comma, or ``auto`` where it stayed."""
    predicted: Mapping[str, Interval] = field(default_factory=dict)
    """By place; a place whose prediction was not used is left out."""
    said: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By place: why it was not considered."""


@dataclass
class Outcome:
    """What became of one program."""

    program: Program
    took_s: dict[str, float] = field(default_factory=dict)
    """By place: median of the runs there."""
    piloted: Answer = Answer("")
    """The answer after the pilot on B; ``went`` is empty where the pilot made no profile."""
    piloted_on_a: Answer = Answer("")
    """The answer after the pilot on A."""
    pilot_cost: float | None = None
    """Processor time of the pilot on A, with its own start, over the program's; None: no pilot."""
    learnt: Answer = Answer("")
    """The answer after one real job."""
    job: str = ""
    """Id of the real job; empty: none ran."""
    ran: str = ""
    """Where the real job ran."""
    job_s: tuple[float, float] | None = None
    """Seconds of the real job: as Slurm recorded them, and of the program in it."""
    memory_bytes: tuple[float, float] | None = None
    """Peak of the memory by the pilot on B, and of the control group of the real job, without
    files; None: no job ran, or the pilot only knows that the program needs at most so much."""
    counted: str = ""
    """How learning used that job (``used``, ``too-short`` ...)."""

    @property
    def best(self) -> str:
        """The place where it is fastest."""
        return min(self.took_s, key=lambda place: self.took_s[place])

    @property
    def close(self) -> bool:
        """Whether the places differ by less than anybody could tell."""
        return max(self.took_s.values()) <= SAME * min(self.took_s.values())

    @property
    def by_threads(self) -> str:
        """Where the rule of threads sends it."""
        return "pair" if self.program.threads > 1 else "full"

    def regret(self, place: str) -> float:
        """Its time there over its least time; where no place was chosen, its longest time."""
        return self.took_s.get(place, max(self.took_s.values())) / min(self.took_s.values())


Choice = Callable[[Outcome], str]
Stage = Callable[[Outcome], Answer]


def first_place(answer: Answer) -> str:
    """Where a job starts on an idle site: Slurm tries a list of partitions in its order."""
    return answer.went.split(",")[0]


def right(outcomes: Sequence[Outcome], choice: Choice) -> int:
    """Return how many of those whose places differ were sent to the faster one."""
    return sum(choice(one) == one.best for one in outcomes if not one.close)


def regret(outcomes: Sequence[Outcome], choice: Choice) -> float:
    """Return the geometric mean of the regrets of all programs; nan where there are none."""
    factors = [one.regret(choice(one)) for one in outcomes]
    return statistics.geometric_mean(factors) if factors else math.nan


@dataclass(frozen=True)
class Coverage:
    """The intervals predicted on one kind of node."""

    held: int
    predicted: int
    programs: int
    factors: tuple[float, ...]
    """Upper over lower end of each."""


def coverage(outcomes: Sequence[Outcome], place: str, stage: Stage) -> Coverage:
    """Return how many times on a place lay within the intervals that were predicted there."""
    pairs = [
        (one.took_s[place], stage(one).predicted[place])
        for one in outcomes
        if place in stage(one).predicted
    ]
    return Coverage(
        sum(low <= took_s <= high for took_s, (low, _, high) in pairs),
        len(pairs),
        len(outcomes),
        tuple(high / low for _, (low, _, high) in pairs),
    )


def shown_place(went: str) -> str:
    """Return A, B, ``A, then B`` or, where the job stayed as it was written, ``nowhere``."""
    names = [PLACES[name] for name in went.split(",") if name in PLACES]
    return ", then ".join(names) or "nowhere"


def program_table(outcomes: Sequence[Outcome], stage: Stage) -> str:
    """Return a line for each program: its times, the predicted ones, and where it was sent."""
    rows = []
    for one in outcomes:
        answer = stage(one)
        intervals = [answer.predicted.get(place) for place in PLACES]
        wrong = not one.close and first_place(answer) != one.best
        rows.append(
            (
                one.program.name,
                str(one.program.threads),
                *(f"{one.took_s[place]:.2f}" for place in PLACES),
                *(f"{i[0]:.2f} to {i[2]:.2f}" if i else "none" for i in intervals),
                PLACES[one.best] + (" (or either)" if one.close else ""),
                shown_place(answer.went),
                "WRONG" if wrong else "",
            )
        )
    header = ("program", "threads", "on A, s", "on B, s", "predicted on A", "predicted on B",
              "best", "sent to", "")  # fmt: skip
    return table_text(text_table("", header, rows), indent=2)


def choice_table(outcomes: Sequence[Outcome], stage: Stage, last: Choice) -> str:
    """Return right choices and regret of Berth and of the rules that ask nobody.

    ``last``: where a program ran last.
    """
    choices: dict[str, Choice] = {
        "Berth": lambda one: first_place(stage(one)),
        "always A": lambda _: "full",
        "always B": lambda _: "pair",
        "where it ran last": last,
        "threads only": lambda one: one.by_threads,
    }
    apart = sum(not one.close for one in outcomes)
    rows = [
        (
            name,
            f"{right(outcomes, choice)} of {apart}" + _share(right(outcomes, choice), apart),
            f"{regret(outcomes, choice):.3f}",
        )
        for name, choice in choices.items()
    ]
    header = ("", "right where A and B differ by over 10 %", "regret")
    return table_text(text_table("", header, rows), indent=2)


def interval_table(outcomes: Sequence[Outcome], stage: Stage, piloted: str) -> str:
    """Return for each kind of node how many 90 % intervals held, and how wide they are.

    ``piloted``: the place where the pilots ran.
    """
    rows = []
    for place, name in PLACES.items():
        kind = coverage(outcomes, place, stage)
        rows.append(
            (
                name + (" (piloted here)" if place == piloted else ""),
                f"{kind.held} of {kind.predicted}" + _share(kind.held, kind.predicted),
                str(kind.programs - kind.predicted),
                f"{statistics.median(kind.factors):.2f}" if kind.factors else "",
                f"{max(kind.factors):.2f}" if kind.factors else "",
            )
        )
    header = ("kind", "90 % intervals held", "not predicted", "median factor", "largest factor")
    return table_text(text_table("", header, rows), indent=2)


def _share(part: int, whole: int) -> str:
    return f" ({part / whole:.0%})" if whole else ""


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the tables after the pilots and, where real jobs ran, the same after one job each."""
    lines = ["After the pilots on B", *_tables(outcomes, lambda one: one.piloted, "pair")]
    from_a = [one for one in outcomes if one.piloted_on_a.went]
    if from_a:
        costs = [one.pilot_cost for one in from_a if one.pilot_cost is not None]
        lines += [
            "",
            "After the pilots on A",
            *_tables(from_a, lambda one: one.piloted_on_a, "full"),
            f"Processor time of these pilots over the program's: median "
            f"{statistics.median(costs):.2f}, largest {max(costs):.2f}",
        ]
    again = [one for one in outcomes if one.learnt.went]
    if again:
        used = [one for one in again if one.counted == "used"]
        lines += [
            "",
            f"After one real job each: {len(used)} of {len(again)} jobs were learnt from"
            + "".join(f"; {one.program.name}: {one.counted or 'no outcome'}"
                      for one in again if one not in used),
            *_tables(again, lambda one: one.learnt, "pair", lambda one: one.ran),
        ]  # fmt: skip
        if peaks := {one.program.name: one.memory_bytes for one in again if one.memory_bytes}:
            ratios = {name: by_pilot / by_job for name, (by_pilot, by_job) in peaks.items()}
            worst = max(ratios, key=lambda name: abs(math.log(ratios[name])))
            near = sum(abs(ratio - 1) <= NEAR for ratio in ratios.values())
            apart = max(abs(by_pilot - by_job) for by_pilot, by_job in peaks.values())
            lines.append(
                f"Memory by the pilot over the peak of the job's control group: within {NEAR:.0%} "
                f"{near} of {len(ratios)}, median {statistics.median(ratios.values()):.3f}, "
                f"farthest {ratios[worst]:.3f} ({worst}); they differ by at most "
                f"{apart / 1e6:.1f} MB"
            )
        own = [
            (one.took_s[one.ran], one.learnt.predicted[one.ran])
            for one in again
            if one.ran in one.learnt.predicted
        ]
        held = sum(low <= took_s <= high for took_s, (low, _, high) in own)
        lines.append(f"Intervals that held on the node where the job ran: {held} of {len(own)}")
        elsewhere = [one for one in again if one.ran != first_place(one.piloted)]
        lines += [
            f"{one.program.name}: the real job ran on {shown_place(one.ran)}, sent to "
            f"{shown_place(one.piloted.went)} after the pilot"
            for one in elsewhere
        ]
        lines += [
            f"{one.program.name}: its real job took {one.job_s[0]:.0f} s by Slurm and "
            f"{one.job_s[1]:.2f} s in it, of {one.took_s.get(one.ran, math.nan):.2f} s before"
            for one in again
            if one.job_s is not None
        ]
    return [
        *lines,
        "Factor: upper over lower end. Regret: time where sent over least time, geometric mean of",
        "all programs; a job that was sent nowhere counts with its longest time.",
    ]


def _tables(
    outcomes: Sequence[Outcome], stage: Stage, piloted: str, last: Choice | None = None
) -> list[str]:
    usable = sum(set(stage(one).predicted) == set(PLACES) for one in outcomes)
    left_out = [
        f"{one.program.name}: {PLACES[place]} is left out: {why}"
        for one in outcomes
        for place, why in stage(one).left_out.items()
    ]
    return [
        program_table(outcomes, stage),
        *left_out,
        choice_table(outcomes, stage, last or (lambda _: piloted)),
        interval_table(outcomes, stage, piloted),
        f"Usable forecast on both kinds: {usable} of {len(outcomes)}",
    ]
