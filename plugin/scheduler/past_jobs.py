"""The result of reading accounting records: jobs that ran, and the lines that could not be read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from berth.pilot.run import Run
from berth.pilot.usage.record import Usage
from berth.plugin.site.programs import JobTexts, ProgramRules

L = TypeVar("L")
SHOWN = 80
"""Maximum number of characters of a line in a message."""
MOST_EXAMPLES = 5
SINGLETON = "singleton"
"""Stands, in a job's dependencies, for all earlier jobs of the same user and name."""
LONGEST_NAME = 255
LONGEST_RUN_S = 10 * 365 * 86_400.0
EARLIEST_S, LATEST_S = 0.0, 4_102_444_800.0
"""Times outside ``EARLIEST_S`` to ``LATEST_S`` (1970 to 2100, Unix time) are refused as errors."""


class Unreadable(ValueError):
    """Why a line cannot be read; ``str()`` is the end of a sentence that begins with the line's
    number."""


@dataclass
class ReadJobs:
    """The jobs read, by job id, and counts of lines left out."""

    jobs: dict[str, Run] = field(default_factory=dict)
    repeated: int = 0
    """Number of lines on a job that was read before; the run that ended last is kept."""
    not_ended: int = 0
    """Number of jobs that are pending, running, or were cancelled before they ran."""
    broken: int = 0
    with_arguments: set[str] = field(default_factory=set)
    """Ids of jobs whose script arguments are known, including those known to have none."""
    examples: list[str] = field(default_factory=list)
    """Descriptions of the first broken lines: number, reason, text."""
    after: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids of the jobs that each job waited for, where the accounting records them."""
    array_limits: dict[str, int] = field(default_factory=dict)
    """Maximum number of simultaneous tasks by array job."""
    changed: dict[str, int] = field(default_factory=dict)
    """Number of jobs that are replayed differently from how they ran, by type of change."""
    texts: dict[str, JobTexts] = field(default_factory=dict)
    """What the submission of each job says of its program, where more than its name is known."""
    usages: list[Usage] = field(default_factory=list)
    """What monitoring recorded of the jobs, where it writes that into the accounting."""
    unmoved: dict[str, str] = field(default_factory=dict)
    """As ``EndedJobs.unmoved``."""
    not_followed: int = 0
    """Number of dependencies of unsupported types, such as Slurm's ``after``."""

    def add(self, job: Run) -> None:
        """Add a job; of several runs of one job the run that ended last is kept."""
        known = self.jobs.get(job.job_id)
        if known is not None:
            self.repeated += 1
            if (job.end_s or 0.0) < (known.end_s or 0.0):
                return
        self.jobs[job.job_id] = job

    def name_programs(self, rules: ProgramRules) -> None:
        """Set the program of each job that the rules recognise."""
        for job_id, job in self.jobs.items():
            texts = self.texts.get(job_id) or JobTexts(job_name=job.name)
            program = rules.program_of(texts)
            if program:
                self.jobs[job_id] = replace(job, program=program)

    def refuse(self, number: int, line: object, why: object) -> None:
        """Count a broken line and keep the first few as examples."""
        self.broken += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(f"line {number}: {why}: {str(line)[:SHOWN]!r}")

    def take(self, number: int, line: L, parse: Callable[[L], Run | None]) -> str | None:
        """Add the job that ``parse`` reads from a line, and return its id; None: the line was
        refused or its job has not ended.

        ``parse`` returns None for a job that has not ended, or raises Unreadable.
        """
        try:
            job = parse(line)
        except Unreadable as error:
            self.refuse(number, line, error)
            return None
        if job is None:
            self.not_ended += 1
            return None
        self.add(job)
        return job.job_id


def text_of(data: bytes) -> str:
    """Return the bytes decoded as UTF-8, or as Latin-1 where they are not UTF-8, without NUL
    characters."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\0", "")


def cells_of(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of one line of a CSV; an empty list where the line is none (a field over
    128 KiB, a line end inside)."""
    try:
        row = next(csv.reader([line.removeprefix("\ufeff")], delimiter=delimiter), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in row]


def name_of(text: str) -> str:
    """Return the text without unprintable characters and at most ``LONGEST_NAME`` long, so that
    every database accepts it."""
    printable = text if text.isprintable() else "".join(c for c in text if c.isprintable())
    return printable[:LONGEST_NAME]


def checked_times(
    submit_s: float | None, start_s: float | None, end_s: float | None, elapsed_s: float | None
) -> float:
    """Return the run time in seconds. Raises Unreadable for times that are missing, inconsistent
    or out of range."""
    if start_s is None or end_s is None:
        raise Unreadable("it says no start or no end")
    for moment in (submit_s, start_s, end_s):
        if moment is not None and not EARLIEST_S <= moment <= LATEST_S:
            raise Unreadable("a time outside 1970 to 2100")
    if end_s < start_s:
        raise Unreadable("it ends before it starts")
    if submit_s is not None and start_s < submit_s - 1.0:
        raise Unreadable("it starts before it was submitted")
    run_time_s = end_s - start_s if elapsed_s is None else elapsed_s
    if run_time_s < 0:
        raise Unreadable("a negative run time")
    if run_time_s > min(end_s - start_s + 1.0, LONGEST_RUN_S):
        raise Unreadable("it ran longer than from its start to its end")
    return run_time_s


def summary(read: ReadJobs) -> list[str]:
    """Return an import's results as lines for the user: repeated, unfinished, changed and broken
    records."""
    lines = []
    if read.repeated:
        lines.append(
            f"{read.repeated} lines repeat a job or tell of an earlier run: last run counts"
        )
    if read.not_ended:
        lines.append(f"{read.not_ended} jobs have not run or not ended: left out")
    lines += [f"{count} {change}" for change, count in read.changed.items()]
    if read.not_followed:
        lines.append(f"{read.not_followed} dependencies are of a kind that is not followed")
    return [*lines, *unreadable("lines", read.broken, read.examples)]


ENDED = (
    "only jobs that started and ended count: take a longer time, or all users (sacct -a -S DATE)"
)
"""Hint that says what to do about a file without such jobs."""


def why_none(read: ReadJobs) -> str:
    """Return the end of a sentence on why no job was read; it begins with the file's name."""
    reasons = []
    if read.broken:
        first = f", first {read.examples[0]}" if read.examples else ""
        reasons.append(f"{read.broken} lines could not be read{first}")
    if read.not_ended:
        reasons.append(f"{read.not_ended} jobs have not run or not ended")
    return f"holds no job that ran{': ' if reasons else ''}{'; '.join(reasons)}"


def unreadable(unit: str, count: int, examples: Sequence[str]) -> list[str]:
    """Return lines that say how many ``unit`` (lines, records) could not be read, with examples;
    empty where all could."""
    if not count:
        return []
    lines = [f"{count} {unit} could not be read and are left out:"]
    lines += [f"  {example}" for example in examples]
    if count > len(examples):
        lines.append(f"  and {count - len(examples)} more")
    return lines
