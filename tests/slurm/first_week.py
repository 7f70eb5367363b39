"""The first week of a user who writes ``-p auto`` and nothing else: eight programs, no pilot.

Every day the user submits the same programs. Other users' jobs fill nodes now and then: in the
first two days each program finds each kind of node full once, later a quarter of the jobs find one
of them full. After each day the site learns by ``berth jobs history refresh``, as
``berth-history.timer`` does every hour. Printed for each day: the kind of node to which each
program would go were all nodes idle. ``--alone``: nobody else submits, all nodes are always idle.

``make first-week`` runs real programs on the two processors of ``two_kinds.py``, where A counts two
CPUs on one processor, so that every job fits on both kinds. Then each program is piloted, and the
filter asked again: from the third day on, at most one program fewer may be right than with pilots.
``MadeUpKinds`` has programs that sleep, for longer on one kind: only accounting can tell that.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fresh_site import DoesNotRun, FreshSite
from known_programs import known_programs, write_text
from new_programs import new_programs
from site_programs import Program, installed
from site_report import PLACES, SAME, shown_place
from slurm_cluster import USER, Cluster, ClusterUnavailable, cluster, wait_until
from two_kinds import TwoKinds

from berth.plugin.report.parts import text_table
from berth.plugin.report.terminal import table_text
from berth.plugin.store import Store

DAYS = 7
FROM_DAY = 3
"""The first day whose answers count: before it a program has run twice."""
REAL = ("xz-1", "sqlite", "gawk", "sort", "xz-2", "zstd-2", "own-omp", "bwa")
LEAST_S = 6.0
"""Each job repeats its program until it takes so long where it is faster: Slurm counts seconds."""
_STARTS_S = 15.0
"""Jobs that have not started within so many seconds wait for the full node: then it is freed."""
_SEES_S = 2.5
"""Within so many seconds the daemon has read the cluster's state."""
_LAYOUT = """\
NodeName=a1 NodeHostname={host} NodeAddr=127.0.0.1 Port={a1} CPUs=16 RealMemory=64000 Feature=old
NodeName=b1 NodeHostname={host} NodeAddr=127.0.0.1 Port={b1} CPUs=16 RealMemory=64000 Feature=new
PartitionName=full Nodes=a1 DefaultTime=01:00:00 DefMemPerCPU=1000
PartitionName=pair Nodes=b1 Default=YES DefaultTime=01:00:00 DefMemPerCPU=1000
PartitionName=auto Nodes=a1,b1 DefaultTime=01:00:00 DefMemPerCPU=1000
"""


class MadeUpKinds(Cluster):
    """Two nodes with the names of ``two_kinds.py`` that differ in nothing but their feature."""

    node_names = ("a1", "b1")
    nodes = _LAYOUT

    def __init__(self) -> None:
        super().__init__(min_job_age_s=3600)


class OneProcessor(TwoKinds):
    """``two_kinds.py`` with two CPUs on A's one processor, as where CPUs are hardware threads."""

    nodes = TwoKinds.nodes.replace("Port={a1} CPUs=1", "Port={a1} CPUs=2")


class UntouchedSite(FreshSite):
    """A site whose file is as ``berth site init`` writes it."""

    rules_of_a = ""


@dataclass
class Daily:
    """A program that the user runs every day, and what became of it."""

    name: str
    script: str
    options: tuple[str, ...] = ()
    took_s: Mapping[str, float] = field(default_factory=dict)
    """By place."""
    ran: list[str] = field(default_factory=list)
    """The partition of each day's job."""
    answers: dict[int, str] = field(default_factory=dict)
    """By day: the partitions of a job that is submitted then on an idle cluster."""
    piloted: str = ""

    @property
    def apart(self) -> bool:
        """Whether the kinds differ by more than anybody could mistake."""
        return max(self.took_s.values()) > SAME * min(self.took_s.values())

    def is_right(self, partitions: str) -> bool:
        """Return whether the first of these partitions is where it is faster."""
        best = min(self.took_s, key=lambda place: self.took_s[place])
        return partitions.partition(",")[0] == best


class Week:
    """The user's jobs on one cluster with a running filter and daemon."""

    def __init__(
        self,
        cluster: Cluster,
        site_file: Path,
        *,
        at_once: int,
        seed: int = 1,
        alone: bool = False,
    ) -> None:
        """``at_once``: so many of the user's jobs run at a time."""
        self._cluster, self._site_file, self._at_once = cluster, site_file, at_once
        self._draws, self._alone = random.Random(seed), alone  # noqa: S311 - no secret
        self._full: dict[str, str] = {}
        """By program: the place that its last job found full; empty: none."""
        self._submitted: list[str] = []

    def run(self, programs: Sequence[Daily], days: int = DAYS) -> None:
        """Ask for each program's place every day, run it, and learn."""
        for day in range(1, days + 1):
            self.when_idle()
            for program in programs:
                program.answers[day] = self.place_of(program)
            self._run_day(programs)
            if day < days:
                self._learn()
            answers = [f"{each.name}: {shown_place(each.answers[day])}" for each in programs]
            print(f"day {day}: {'  '.join(answers)}", flush=True)

    def place_of(self, program: Daily, *options: str, user: str | None = USER) -> str:
        """Return the partitions of a held job, which is cancelled."""
        job = self._submit(program, "--hold", *options, user=user)
        where = self._cluster.job(job)["Partition"]
        self._cluster.run("scancel", str(job))
        return where

    def _submit(self, program: Daily, *options: str, user: str | None = USER) -> int:
        return self._cluster.sbatch(
            "-p", "auto", "-J", program.name, "-o", "/dev/null", *program.options, *options,
            script=program.script, user=user,
        ).id  # fmt: skip

    def _run_day(self, programs: Sequence[Daily]) -> None:
        """Run each program once, those that find the same place full together."""
        for program in programs:
            before = self._full.get(program.name)
            if self._alone:
                self._full[program.name] = ""
            elif len(program.ran) == 1:
                self._full[program.name] = next(place for place in PLACES if place != before)
            else:
                drawn = [*PLACES] if before is None else [*PLACES, "", ""]
                self._full[program.name] = self._draws.choice(drawn)
        for full in ("", *PLACES):
            group = [program for program in programs if self._full[program.name] == full]
            for start in range(0, len(group), self._at_once):
                self._run_group(group[start : start + self._at_once], full)

    def _run_group(self, programs: Sequence[Daily], full: str) -> None:
        jobs = {}
        with self._filled(full):
            for program in programs:
                jobs[program.name] = str(self._submit(program))
            with suppress(AssertionError):  # those that wait for the full node start after it
                wait_until(lambda: not self._are_pending(), "the jobs have started", _STARTS_S)
        for program in programs:
            state = self._cluster.wait_for_state(jobs[program.name], timeout_s=600)
            if state != "COMPLETED":
                raise DoesNotRun(f"{program.name}: the job is {state}")
            program.ran.append(self._cluster.job(jobs[program.name])["Partition"])
        self._submitted += jobs.values()

    def _are_pending(self) -> bool:
        words = ("squeue", "-h", "-t", "PENDING", "-u", USER, "-o", "%A")
        return bool(self._cluster.run(*words).stdout.split())

    @contextmanager
    def _filled(self, place: str) -> Iterator[None]:
        """Another user's job has all of the place's node; ``place`` empty: the nodes are idle."""
        self.when_idle(see=not place)
        if not place:
            yield
            return
        job = self._cluster.sbatch(
            "-p", place, "--exclusive", "--comment=berth:off", "-o", "/dev/null",
            script="#!/bin/sh\nexec sleep 600\n", user=None,
        )  # fmt: skip
        try:
            self._cluster.wait_for_state(job.id, "RUNNING")
            time.sleep(_SEES_S)
            yield
        finally:
            self._cluster.run("scancel", str(job.id))

    def when_idle(self, *, see: bool = True) -> None:
        """Wait until the nodes are idle, and (``see``) until the daemon has read it."""

        def idle() -> bool:
            states = self._cluster.run("sinfo", "-h", "-N", "-o", "%T").stdout.split()
            return set(states) <= {"idle", "inact"}

        wait_until(idle, "the nodes are idle", 120)
        if see:
            time.sleep(_SEES_S)

    def _learn(self) -> None:
        """What ``berth-history.timer`` does, once the daemon has read what became of the jobs."""
        store = Store.open(f"sqlite:///{self._cluster.work}/berth.db", create=False)

        def known() -> bool:
            ended = store.outcomes.last(0, time.time() + 60, 10_000)
            return {outcome.job_id for outcome in ended} >= set(self._submitted)

        wait_until(known, "the jobs' outcomes are stored", 90)
        store.close()
        site = str(self._site_file)
        self._cluster.berth("jobs", "history", "refresh", "--site", site, timeout_s=300)
        time.sleep(_SEES_S)


def right(programs: Sequence[Daily], answers: Sequence[str]) -> int:
    """Return how many of the programs that differ between the kinds went to the faster one."""
    return sum(
        program.is_right(answer)
        for program, answer in zip(programs, answers, strict=True)
        if program.apart
    )


def fewest_right(programs: Sequence[Daily]) -> int:
    """Return the fewest that were right on a day that counts."""
    days = [day for day in programs[0].answers if day >= FROM_DAY]
    return min(right(programs, [program.answers[day] for program in programs]) for day in days)


def report(programs: Sequence[Daily]) -> str:
    """Return a line for each program, and one for each day with how many were right."""
    days = sorted(programs[0].answers)
    header = ("program", "on A, s", "on B, s", *(f"day {day}" for day in days), "piloted", "ran on")
    rows = [
        (
            program.name + ("" if program.apart else " (either)"),
            *(f"{program.took_s[place]:.1f}" for place in PLACES),
            *(shown_place(program.answers[day]) for day in days),
            shown_place(program.piloted) if program.piloted else "",
            "".join(PLACES.get(place, "?") for place in program.ran),
        )
        for program in programs
    ]
    of = sum(program.apart for program in programs)
    counted = {f"day {day}": [program.answers[day] for program in programs] for day in days}
    counted |= {f"always {name}": [place] * len(programs) for place, name in PLACES.items()}
    if any(program.piloted for program in programs):
        counted["piloted"] = [program.piloted for program in programs]
    lines = [
        f"{name}: {right(programs, answers)} of {of} right" for name, answers in counted.items()
    ]
    return "\n".join([table_text(text_table("", header, rows)), *lines])


def _wanted(folder: Path) -> dict[str, Program]:
    """Return the programs of ``REAL`` by name: four of one thread, four of two."""
    command = ("zstd", "-q", "-T2", "-7", "-c", str(folder / "text"))
    zstd = Program("zstd-2", "zstd", command, 2, write_text, "zstd")
    every = {
        program.name: program for program in (*known_programs(folder), *new_programs(folder), zstd)
    }
    return {name: every[name] for name in REAL}


def real_programs(site: FreshSite) -> list[Daily]:
    """Return those of ``REAL`` that are installed, timed on both kinds. Raises DoesNotRun."""
    folder = site.work
    installed_programs, missing = installed(list(_wanted(folder).values()))
    if missing:
        print("not installed: " + ", ".join(program.name for program in missing), flush=True)
    daily = []
    for program in installed_programs:
        program.prepare(folder)
        times = {place: site.timed(program, place) for place in PLACES}
        repeats = math.ceil(LEAST_S / min(times.values()))
        daily.append(
            Daily(
                program.name,
                f"#!/bin/bash\nexec {site.script(program, repeats)}\n",
                ("-c", str(program.threads)),
                {place: repeats * took_s for place, took_s in times.items()},
            )
        )
    return daily


def pilot_all(site: FreshSite, week: Week, programs: Sequence[Daily]) -> None:
    """Pilot each program, and ask for its place with the profile."""
    by_name = _wanted(site.work)
    for program in programs:
        failed = site.pilot(by_name[program.name])
        if failed:
            print(f"{program.name}: {failed}", flush=True)
    week.when_idle()
    for program in programs:
        program.piloted = week.place_of(program, f"--comment=berth:{program.name}", user=None)


def main() -> int:
    """Exit status 1 where from the third day on over one program fewer was right than piloted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of which jobs find a node full [1]")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--alone", action="store_true", help="no jobs of other users")
    asked, calibration = parser.parse_known_args()
    with cluster(OneProcessor) as running:
        site = UntouchedSite(running)
        print(site.install(*calibration), flush=True)
        programs = real_programs(site)
        week = Week(running, site.site, at_once=1, seed=asked.seed, alone=asked.alone)
        week.run(programs, asked.days)
        pilot_all(site, week, programs)
    print(report(programs))
    fewest = fewest_right(programs)
    fewer = right(programs, [program.piloted for program in programs]) - fewest
    print(f"fewest right from day {FROM_DAY} on: {fewest}; fewer than piloted: {fewer}")
    return 1 if fewer > 1 else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClusterUnavailable as absent:
        sys.exit(f"no first week here: {absent}")
