"""Reads what accounting stores of a job's submission: its command line and its script.

The command line names the jobs that a job waits for, and limits of its array. Scripts are stored
from Slurm 21.08 on with ``AccountingStoreFlags=job_script``. ``sacct --batch-script`` writes each
script under a line with the job's number (``7``, ``8_2``). A user can write such lines into a
script. So jobs of one user are read together, and an answer with unexpected numbers is discarded:
nobody can pass a script off as another user's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.history.matching import JobDescription, describe_job, plain_name
from berth.plugin.scheduler.past_jobs import ReadJobs
from berth.plugin.site.programs import LONGEST_TEXT, JobTexts, image_in, texts_of_script
from berth.plugin.slurm import commands
from berth.plugin.slurm.commands import listed, read_configuration

MOST = 1_000
"""The most jobs that one job waits for; further jobs are ignored."""
_OPTION = {"-d": "dependency", "--dependency": "dependency", "-a": "array", "--array": "array"}
_SHORT = frozenset("ABbCcDeFGiJLMmNnopqtwx")
"""One-letter options that take a value."""
_ENDS = ("afterok", "afterany", "afternotok", "afterburstbuffer")
_JOB = re.compile(r"(\d{1,18})(?:_(\d{1,18}|\*))?(?:\+\d{1,9})?")
_AT_ONCE = re.compile(r"%(\d{1,9})")


class Dependencies(NamedTuple):
    """The jobs that a job waits for and its array's limit, as one submit line names them."""

    after: tuple[str, ...]
    """Ids of jobs, or of whole arrays, whose end the job waits for."""
    with_task: tuple[str, ...]
    """Ids of arrays of which the job waits for the task with its own task number
    (``aftercorr``).
    """
    singleton: bool
    """True where the job waits for all earlier jobs of the same user and name."""
    at_once: int | None
    """The most tasks of the job's array that may run at the same time; None: no limit."""
    others: int
    """The number of dependencies of other types."""


NO_DEPENDENCIES = Dependencies((), (), False, None, 0)


def dependencies_in_line(line: str) -> Dependencies:
    """Return the dependencies in a SubmitLine of Slurm's accounting; none where it cannot be
    read."""
    if "-d" not in line and "--dep" not in line and "-a" not in line and "--array" not in line:
        return NO_DEPENDENCIES
    options = _options(line)
    limit = _AT_ONCE.search(options.get("array", ""))
    at_once = int(limit[1]) if limit is not None and int(limit[1]) > 0 else None
    return dependencies(options.get("dependency", ""))._replace(at_once=at_once)


def dependencies(text: str) -> Dependencies:
    """Return the dependencies in the value of ``--dependency``, such as
    ``afterok:12:13,singleton``.
    """
    after: list[str] = []
    with_task: list[str] = []
    singleton, others = False, 0
    for part in re.split(r"[,?]", text):
        kind, *jobs = part.split(":")
        if not kind:
            continue
        matches = [match for job in jobs if (match := _JOB.fullmatch(job)) is not None]
        if kind == "singleton":
            singleton = True
        elif kind in _ENDS and len(matches) == len(jobs) > 0:
            after += [m[1] if m[2] in (None, "*") else f"{m[1]}_{m[2]}" for m in matches]
        elif kind == "aftercorr" and len(matches) == len(jobs) > 0:
            with_task += [m[1] for m in matches]
        else:
            others += 1
    return Dependencies(tuple(after[:MOST]), tuple(with_task[:MOST]), singleton, None, others)


def _options(line: str) -> dict[str, str]:
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    options: dict[str, str] = {}
    at = 1
    while at < len(words):
        word = words[at]
        name, mark, value = word.partition("=")
        at += 1
        if not word.startswith("-"):
            break  # the script; the words after it are its own arguments
        if word.startswith("--"):
            if not mark and name not in _FLAGS and at < len(words):
                value, at = words[at], at + 1
        elif word in _OPTION or (len(word) == 2 and word[1] in _SHORT):
            value, at = (words[at] if at < len(words) else ""), at + 1
        else:
            name, value = word[:2], word[2:]
        if name in _OPTION:
            options[_OPTION[name]] = value
    return options


_FLAG_TEXT = """
--contiguous --exclusive --get-user-env --help --hold --ignore-pbs --no-requeue --overcommit
--oversubscribe --parsable --quiet --reboot --requeue --spread-job --test-only --use-min-nodes
--verbose --version --wait --wait-all-nodes
"""
_FLAGS = frozenset(_FLAG_TEXT.split())
"""Long options that do not take the next word as their value."""


# What a submit line says of the program


_WRAP = re.compile(r"\s--wrap[= ]")
_OF_COMPONENT = ":".__ne__
"""Returns False for the word ``:``, which separates the components of a heterogeneous job."""
_NAMING = ("-J", "--job-name")


def arguments_in_line(name: str, line: str) -> JobDescription | None:
    """Return the script's arguments, or the wrapped command, from a submit line; None: neither is
    found.

    A renamed job's script is not found in its submit line, and options after ``--wrap`` are taken
    for the command's own; such jobs are matched by name and shape alone.
    """
    wrapped = _WRAP.search(line)
    if wrapped is not None and not plain_name(name):
        return describe_job(name, (), f"#!/bin/sh\n{line[wrapped.end() :]}")
    words = line.split()
    for index in range(1, len(words)):
        if PurePosixPath(words[index]).name == name and words[index - 1] not in _NAMING:
            return describe_job(name, list(takewhile(_OF_COMPONENT, words[index + 1 :])))
    return None


def texts_in_line(name: str, line: str, comment: str) -> JobTexts | None:
    """Return what a job's submit line and comment say of its program; None: nothing."""
    if not line and not comment:
        return None
    wrapped = _WRAP.search(line)
    path = ""
    if wrapped is None:
        path = next((word for word in line.split() if word.rpartition("/")[2] == name), "")
    return JobTexts(
        job_name=name,
        comment=comment[:LONGEST_TEXT],
        command=line[wrapped.end() :][:LONGEST_TEXT] if wrapped else "",
        script=path,
        image=image_in(line[: 4 * LONGEST_TEXT]),
    )


# Scripts


FLAG = "job_script"
SCRIPTS_OF_KIND = 50
"""The most scripts that are read for one user and job name: those of the latest jobs."""
AT_ONCE = 100
"""The number of jobs whose scripts one sacct command requests."""
_TIMEOUT_S = 120.0
_HEADING = re.compile(r"^Batch Script for (\S{1,40})\n-{80}\n", re.MULTILINE)
_ABSENT = frozenset(("", "NONE"))


def are_stored() -> bool:
    """Return whether accounting stores job scripts; False where Slurm's configuration cannot be
    read.
    """
    try:
        flags = listed(read_configuration(), "AccountingStoreFlags")
    except (SchedulerError, ToolMissing):
        return False
    return FLAG in map(str.lower, flags)


def scripts_of(by_user: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return job scripts by job number, for the jobs in ``by_user`` whose script is stored.

    Stops where Slurm does not answer and returns the scripts read so far.
    """
    scripts: dict[str, str] = {}
    for jobs in by_user.values():
        waiting = [jobs[begin : begin + AT_ONCE] for begin in range(0, len(jobs), AT_ONCE)]
        while waiting:
            asked_jobs = waiting.pop()
            try:
                text = commands.run(
                    ("sacct", "--batch-script", "-j", ",".join(asked_jobs)), timeout_s=_TIMEOUT_S
                )
            except (SchedulerError, ToolMissing):
                return scripts
            parsed = parse_scripts(text, asked_jobs)
            if parsed is not None:
                scripts.update(parsed)
            elif (
                len(asked_jobs) > 1
            ):  # halves, until only the job is left out whose script holds such a line
                waiting += [asked_jobs[: len(asked_jobs) // 2], asked_jobs[len(asked_jobs) // 2 :]]
    return scripts


def add_scripts(read: ReadJobs) -> None:
    """Add digests of job scripts to the latest jobs of each user and job name, where accounting
    stores scripts.
    """
    if not are_stored():
        return
    wanted: dict[str, list[str]] = {}
    looked_at: dict[tuple[str, str], int] = {}
    for job in sorted(read.jobs.values(), key=lambda job: -(job.end_s or 0.0)):
        kind = job.user, plain_name(job.name)
        looked_at[kind] = looked_at.get(kind, 0) + (job.job_id in read.with_arguments)
        if job.job_id in read.with_arguments and job.user and looked_at[kind] <= SCRIPTS_OF_KIND:
            wanted.setdefault(job.user, []).append(job.job_id)
    for job_id, script in scripts_of(wanted).items():
        job = read.jobs[job_id]
        read.jobs[job_id] = replace(job, script=describe_job("", (), script).script)
        known = read.texts.get(job_id, JobTexts(job_name=job.name))
        texts = texts_of_script(job.name, script, comment=known.comment, path=known.script)
        read.texts[job_id] = texts._replace(image=texts.image or known.image)


def parse_scripts(text: str, wanted: Sequence[str]) -> dict[str, str] | None:
    """Return job scripts by job number; None where a number was not requested or occurs twice."""
    parts = _HEADING.split(text)
    numbers, scripts = parts[1::2], parts[2::2]
    if len(set(numbers)) < len(numbers) or not set(numbers) <= set(wanted):
        return None
    read = {n: script.removesuffix("\n") for n, script in zip(numbers, scripts, strict=True)}
    return {number: script for number, script in read.items() if script.strip() not in _ABSENT}
