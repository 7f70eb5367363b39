"""A fresh site by hand: installed, calibrated, and real programs placed by the filter.

``make fresh-site`` runs it on a private Slurm of two kinds of nodes that cross (A: one full core,
B: two throttled ones): each program is timed on both, piloted on B and, under another name, on A,
and submitted for the filter to place by each pilot; one job of it runs where the filter sent it at
once, while its files are still in memory as when it was timed. Then the site learns from these
jobs, and each program is submitted again.
``site_report.py`` prints what came of it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from known_programs import known_programs
from new_programs import new_programs
from site_programs import Program, installed, packages
from site_report import PLACES, Answer, Outcome, program_table, report
from slurm_cluster import ClusterUnavailable, cluster, wait_until
from third_programs import third_programs
from two_kinds import TwoKinds

from berth.pilot.units import MOST_SHOWN_FACTOR
from berth.plugin.store import Store

BERTH = str(Path(sys.executable).with_name("berth"))
SETS: Mapping[str, Callable[[Path], list[Program]]] = {
    "known": known_programs,
    "new": new_programs,
    "third": third_programs,
}
FROM_A = "{}.on-a"
"""Name of the workload that a program's pilot on A makes."""
OUTCOMES_S = 20
"""Seconds between two looks of the daemon for jobs that have ended."""


class DoesNotRun(Exception):
    """A program failed here; the message says which command, and what it printed last."""


class FreshSite:
    """The commands of the README on one cluster, each timed."""

    rules_of_a = "translation = { max_cores = 1, keep_tasks = false }\n"
    """A line of A's candidate: it has one core, which jobs of two threads may have, too."""

    def __init__(self, cluster: TwoKinds) -> None:
        self.cluster, self.work = cluster, cluster.work
        self.site = cluster.work / "berth.toml"

    def berth(self, *words: str, timeout_s: float = 1200) -> str:
        """One command of ours; what it printed."""
        return self.cluster.berth(*words, timeout_s=timeout_s).stdout

    def install(self, *calibration: str) -> str:
        """Site file, calibration, daemon and filter in mode enforce; what calibrate printed."""
        self.berth("site", "init", "--output", str(self.site))
        text = self.site.read_text().replace('mode = "shadow"', 'mode = "enforce"')
        text = text.replace('partition = "full"\n', f'partition = "full"\n{self.rules_of_a}')
        self.site.write_text(
            f"{text}{self.cluster.daemon_table(outcomes_refresh_s=OUTCOMES_S)}"
            "[learning]\nenabled = false\n"
        )
        said = self.berth("site", "calibrate", "--site", str(self.site), *calibration)
        daemon = self.cluster.before_others(BERTH, "serve", "--site", str(self.site))
        self.cluster.launch("berth", *daemon)
        self.cluster.install_filter()
        wait_until(self.cluster.berth_socket.exists, "the daemon listens", 60)
        return said

    def pilot(self, program: Program) -> str | None:
        """Measure it on the reference partition; what the job wrote, where it made no profile."""
        found = json.loads(
            self.berth(
                "pilot", "submit", "--site", str(self.site), "--name", program.name, "--json",
                "--results", str(self.work / "pilots"), "--", *program.command,
            )
        )  # fmt: skip
        state = self.cluster.wait_for_state(found["pilot_job"], timeout_s=1500)
        if self._profiles(program):
            return None
        logs = sorted((self.work / "pilots").glob(f"{program.name}-*.log"))
        said = logs[-1].read_bytes().decode("utf-8", "replace")[-2000:] if logs else found
        return f"pilot {state}: {said}"

    def pilot_on_a(self, program: Program) -> float | None:
        """Measure it on A under the name ``FROM_A``; the pilot's processor time in seconds, with
        its own start. None where the pilot made no profile."""
        platform = tomllib.loads(self.site.read_text())["candidates"]
        (name,) = {c["platform"] for c in platform if c["name"] == "full"}
        output = self.work / f"{program.name}-pilot-a.out"
        pilot = (
            BERTH, "pilot", "run", "-q", "--site", str(self.site), "--store", "--platform", name,
            "--name", FROM_A.format(program.name), "--", *program.command,
        )  # fmt: skip
        job = self.cluster.sbatch(
            "-p", "full", "-o", str(output), user=None,
            script=f"#!/bin/bash\nTIMEFORMAT='took %R %U %S'\ntime {shlex.join(pilot)}\n",
        )  # fmt: skip
        state = self.cluster.wait_for_state(job.id, timeout_s=1500)
        spent = _lines(output)
        return sum(spent[-1][1:]) if state == "COMPLETED" and spent else None

    def _profiles(self, program: Program) -> list[Path]:
        return sorted((self.work / "pilots").glob(f"{program.name}-??????.profile.json"))

    def timed(self, program: Program, place: str, runs: int = 3) -> tuple[float, float]:
        """Median seconds on a place, and of processor time, in jobs that are not looked at. Raises
        DoesNotRun."""
        script = self.script(program, runs)
        output = self.work / f"{program.name}-{place}.out"
        cpus = program.threads if place == "pair" else 1
        job = self.cluster.sbatch(
            "-p", place, "-c", str(cpus), "-o", str(output), str(script), user=None
        )
        state = self.cluster.wait_for_state(job.id, timeout_s=600)
        spent = _lines(output)
        if state != "COMPLETED" or len(spent) != runs:
            lines = output.read_text(errors="replace").splitlines()
            said = " | ".join([line for line in lines if not line.startswith("took ")][-3:])
            raise DoesNotRun(f"{shlex.join(program.command)} on {PLACES[place]}: {state}: {said}")
        return statistics.median(s[0] for s in spent), statistics.median(s[1] + s[2] for s in spent)

    def script(self, program: Program, runs: int) -> Path:
        """Return a script that runs the program so many times, and prints how long each took and
        the largest memory of its control group, without the files that are in memory."""
        script = self.work / f"{program.name}-{runs}.sh"
        group = f"/sys/fs/cgroup/memory/{self.cluster.root.name}-{program.name}"
        script.write_text(
            f"#!/bin/bash\nset -e\nTIMEFORMAT='took %R %U %S'\nmkdir {group}\n"
            # Ranks of MPI may end after their launcher.
            f"trap 'for i in 1 2 3 4 5; do rmdir {group} && break; sleep 0.2; done; :' EXIT\n"
            f"for i in $(seq {runs}); do time {{ (\n"
            f"  echo $BASHPID > {group}/cgroup.procs\n"
            f"  exec {shlex.join(program.command)} > /dev/null\n); }}; done\n"
            f"cached=$(sed -n 's/^total_cache //p' {group}/memory.stat)\n"
            f"echo held $(($(cat {group}/memory.max_usage_in_bytes) - cached))\n"
        )
        script.chmod(0o755)
        return script

    def answered(self, program: Program, name: str = "{}") -> Answer:
        """Submit a held job for the filter to place, cancel it, and return the answer.

        ``name``: that of the workload, with the program's in the place of ``{}``.
        """
        job_id, said = self._submitted(program, "--hold", name=name)
        where = self._place(program, job_id)
        self.cluster.run("scancel", str(job_id))
        words = ("jobs", "decisions", str(job_id), "--json", "--site", str(self.site))

        def stored() -> bool:
            return self.cluster.berth(*words, check=False).returncode == 0

        wait_until(stored, "the decision is stored", 30)
        ranked = json.loads(self.berth(*words))["ranked"]
        predicted = {
            row["candidate"]: tuple(seconds)
            for row in ranked
            if (seconds := row.get("runtime_s") or row.get("predicted_s"))
            and row["candidate"] in PLACES
            and seconds[2] <= MOST_SHOWN_FACTOR * seconds[1]  # wider: not known
        }
        left_out = {
            row["candidate"]: row["excluded"]
            for row in ranked
            if row.get("excluded") and row["candidate"] in PLACES
        }
        return Answer(where, predicted, said, left_out)

    def one_job(self, one: Outcome) -> str:
        """Run it once as its user would and note where and how long; its job id. Raises
        DoesNotRun."""
        name, output = one.program.name, self.work / f"{one.program.name}.out"
        job_id, _ = self._submitted(one.program, "-o", str(output))
        state = self.cluster.wait_for_state(job_id, timeout_s=600)
        spent = _lines(output)
        if state != "COMPLETED" or len(spent) != 1:
            raise DoesNotRun(f"{name}: the job that Berth placed is {state}")
        one.ran = self._place(one.program, job_id)
        (held,) = _lines(output, "held ")
        profile = json.loads(self._profiles(one.program)[0].read_text())
        if not profile.get("peak_memory_is_bound"):
            one.memory_bytes = profile["peak_memory_bytes"], held[0]
        hours, minutes, seconds = map(int, self.cluster.job(job_id)["RunTime"].split(":"))
        one.job_s = 3600.0 * hours + 60 * minutes + seconds, spent[0][0]
        return str(job_id)

    def _submitted(self, program: Program, *options: str, name: str = "{}") -> tuple[int, str]:
        """Submit it with a core for each thread, of which A, which has one core, may give fewer.

        The job's script does not name the number of threads: such a job would keep its shape and
        never go to A.
        """
        wait_until(self._idle, "the nodes are idle", 60)
        time.sleep(2.5)  # until the daemon has read that, too
        comment = f"--comment=berth:{name.format(program.name)}"
        job = self.cluster.sbatch(
            "-p", "auto", "-n", str(program.threads), comment,
            *options,
            script=f"#!/bin/bash\nexec {self.script(program, 1)}\n", user=None,
        )  # fmt: skip
        return job.id, job.message.strip()

    def _place(self, program: Program, job_id: int) -> str:
        """Return the partition of a job; B's for a job of two threads that stayed in ``auto``, of
        whose nodes B's alone has two cores."""
        where: str = self.cluster.job(job_id)["Partition"]
        return "pair" if where == "auto" and program.threads > 1 else where

    def _idle(self) -> bool:
        states = self.cluster.run("sinfo", "-h", "-N", "-o", "%T").stdout.split()
        return set(states) <= {"idle", "inact"}

    def learn(self, jobs: Sequence[str]) -> dict[str, str]:
        """Learn from these jobs once the daemon has read their outcomes; by job, how it counted."""
        store = Store.reading(f"sqlite:///{self.work}/berth.db")

        def known() -> set[str]:
            return {outcome.job_id for outcome in store.outcomes.last(0, time.time() + 60, 1000)}

        wait_until(lambda: known() >= set(jobs), "the jobs' outcomes are stored", 4 * OUTCOMES_S)
        self.berth("jobs", "learn", "--site", str(self.site))
        counted = {record.job_id: record.use for record in store.learning.of_user("root", 1000)}
        store.close()
        time.sleep(3)  # until the daemon has read the new forecasts
        return {job: str(counted.get(job, "")) for job in jobs}


def _lines(output: Path, word: str = "took ") -> list[tuple[float, ...]]:
    """Return the numbers of a job's lines that begin with ``word``; of each run the seconds by the
    clock, of user and of system."""
    lines = output.read_text(errors="replace").splitlines()
    return [tuple(map(float, line.split()[1:])) for line in lines if line.startswith(word)]


def piloted(site: FreshSite, wanted: Sequence[Program], *, runs: int = 3) -> list[Outcome]:
    """Time each program on both places, pilot it, ask the filter for it, and run one job of it.

    Programs that do not run here are left out and named.
    """
    outcomes = []
    for program in wanted:
        one = Outcome(program)
        try:
            program.prepare(site.work)
            spent = {place: site.timed(program, place, runs) for place in PLACES}
            one.took_s = {place: each[0] for place, each in spent.items()}
        except (DoesNotRun, subprocess.CalledProcessError) as error:
            print(f"{program.name} is left out, it does not run here: {error}", flush=True)
            continue
        failed = site.pilot(program)
        pilot_s = site.pilot_on_a(program)
        if pilot_s is not None:
            one.pilot_cost = pilot_s / max(spent["full"][1], 0.01)
            one.piloted_on_a = site.answered(program, FROM_A)
        if failed is None:
            one.piloted = site.answered(program)
            try:
                one.job = site.one_job(one)
            except DoesNotRun as error:
                print(error, flush=True)
        print(f"{program.name}: {failed or one.piloted.said}", flush=True)
        print(program_table([one], lambda each: each.piloted).splitlines()[-1], flush=True)
        outcomes.append(one)
    return outcomes


def learnt(site: FreshSite, outcomes: Sequence[Outcome]) -> None:
    """Learn from the real job of each program, and ask the filter for the program again."""
    ran = [one for one in outcomes if one.job]
    counted = site.learn([one.job for one in ran])
    for one in ran:
        one.counted = counted[one.job]
        one.learnt = site.answered(one.program)


def main() -> None:
    """``fresh_site.py [--set new] [--only NAME,NAME] [options of berth site calibrate]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SETS, default="known", help="which programs [known]")
    parser.add_argument("--only", metavar="NAME,NAME", type=lambda text: text.split(","))
    parser.add_argument("--packages", action="store_true", help="print the set's Debian packages")
    asked, calibration = parser.parse_known_args()
    every = SETS[asked.set](Path())
    if asked.packages:
        print(" ".join(packages(every)))
        return
    names = [program.name for program in every]
    if unknown := set(asked.only or ()) - set(names):
        parser.error(f"no program {', '.join(sorted(unknown))} in the set {asked.set}; "
                     f"it has {', '.join(names)}")  # fmt: skip
    with cluster(TwoKinds) as running:
        site = FreshSite(running)
        wanted, missing = installed(
            [one for one in SETS[asked.set](running.work) if one.name in (asked.only or names)]
        )
        print(site.install(*calibration), flush=True)
        outcomes = piloted(site, wanted)
        learnt(site, outcomes)
        for line in report(outcomes):
            print(line)
        for program in missing:
            print(f"{program.name} is left out, it is not installed: {program.package}")


if __name__ == "__main__":
    try:
        main()
    except ClusterUnavailable as absent:
        sys.exit(f"no fresh site here: {absent}")
