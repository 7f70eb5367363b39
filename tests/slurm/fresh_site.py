"""A fresh site by hand: installed, calibrated, and real programs placed by the filter.

``make fresh-site`` runs it on a private Slurm of two kinds of nodes that cross (A: one full core,
B: two throttled ones) and prints each program's true times on both, the predicted ones, and where
the filter sent it. Programs that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_cluster import ClusterUnavailable, wait_until
from two_kinds import TwoKinds, two_kinds

from berth.plugin.report.parts import text_table
from berth.plugin.report.terminal import table_text
from berth.plugin.slurm.filter import FILTER_PATH

BERTH = str(Path(sys.executable).with_name("berth"))
SAME = 1.1
"""Times within this factor cannot be put in the wrong order."""
PLACES = {"full": "A", "pair": "B"}
REFERENCE = "pair"
"""Where programs are piloted: the one with more cores, so that all their threads are seen."""


@dataclass(frozen=True)
class Program:
    """A real program: its command, and how many threads it computes with."""

    name: str
    tool: str
    command: tuple[str, ...]
    threads: int = 1
    prepare: Callable[[Path], None] = lambda _: None


@dataclass
class Outcome:
    """What became of one program."""

    program: Program
    took_s: dict[str, float] = field(default_factory=dict)
    """By place: median of the runs there."""
    predicted: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    went: str = ""
    said: str = ""

    @property
    def best(self) -> str:
        """The place where it is fastest."""
        return min(self.took_s, key=lambda place: self.took_s[place])

    @property
    def close(self) -> bool:
        """Whether the places differ by less than anybody could tell."""
        return max(self.took_s.values()) <= SAME * min(self.took_s.values())

    @property
    def wrong(self) -> bool:
        """Sent to the slower place, or nowhere, though the places differ."""
        return not self.close and self.went != self.best

    @property
    def covered(self) -> list[bool]:
        """For each place that the profile is not from: was the time within its interval?"""
        return [
            self.predicted[p][0] <= self.took_s[p] <= self.predicted[p][2]
            for p in self.took_s
            if p in self.predicted and p != REFERENCE
        ]


def write_text(folder: Path, copies: int = 9) -> None:
    """Some 24 MB of text that is neither random nor the same all over."""
    words = [f"{(i * 2654435761) % 100003:x}-{i % 977}" for i in range(120_000)]
    lines = (" ".join(words[i : i + 9]) for i in range(0, len(words), 7))
    text = "\n".join(lines)
    (folder / "text").write_text(text * copies)


def write_reads(folder: Path) -> None:
    """A made-up genome and reads of it."""
    state, letters = 12345, []
    for _ in range(400_000):
        state = (1103515245 * state + 12345) % 2**31
        letters.append("ACGT"[state >> 16 & 3])
    genome = "".join(letters)
    (folder / "genome.fa").write_text(f">g\n{genome}\n")
    with (folder / "reads.fa").open("w") as file:
        for i in range(900):
            start = (i * 7919) % 395_000
            file.write(f">r{i}\n{genome[start : start + 3000]}\n")


def write_lammps(folder: Path) -> None:
    """The usual benchmark of a Lennard-Jones liquid."""
    (folder / "melt.in").write_text(
        "units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 16 0 16 0 16\n"
        "create_box 1 box\ncreate_atoms 1 box\nmass 1 1.0\nvelocity all create 1.44 87287\n"
        "pair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\n"
        "fix 1 all nve\nrun 60\n"
    )


SQL = (
    "create table t(a integer, b text); with recursive n(i) as (select 1 union all select i+1 "
    "from n where i < 300000) insert into t select i*7919%300007, hex(i*31) from n; "
    "create index x on t(b); select count(*), sum(a) from t where b > '3'; "
    "select count(*) from (select b, avg(a) from t group by substr(b,1,3));"
)
NUMPY = (
    "import os; os.environ['OPENBLAS_NUM_THREADS']='{n}'; import numpy as np; "
    "a=np.random.default_rng(0).random((900,900)); "
    "[np.linalg.{what} for _ in range({times})]"
)
OWN = """\
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  long n = 20000000; unsigned *v = malloc(n * sizeof *v); unsigned long s = 0;
#pragma omp parallel for num_threads(2) reduction(+ : s)
  for (long i = 0; i < n; i++) {
    unsigned x = (unsigned)i * 2654435761u;
    for (int k = 0; k < 24; k++) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
    v[i] = x; s += x;
  }
  printf("%lu\\n", s);
}
"""


def write_own(folder: Path) -> None:
    """A program of our own, compiled here."""
    (folder / "own.c").write_text(OWN)
    subprocess.run(["gcc", "-O2", "-fopenmp", "-o", "own", "own.c"], cwd=folder, check=True)


REAL = Path(__file__).parents[2] / "benchmarks/real_programs"
"""Inputs that the benchmark of emulation has, too."""


def write_gromacs(folder: Path) -> None:
    """A box of water."""
    for name in ("topol.top", "md.mdp"):
        shutil.copy(REAL / name, folder)
    for words in (
        "solvate -cs spc216.gro -box 3.72412 3.72412 3.72412 -o conf.gro -p topol.top",
        "grompp -f md.mdp -c conf.gro -p topol.top -o topol.tpr -maxwarn 2",
    ):
        command = ["gmx", "-quiet", *words.split()]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def write_mpi(folder: Path) -> None:
    """Heat on a grid, compiled here."""
    command = ["mpicc", "-O2", "-o", "heat", str(REAL / "heat_mpi.c"), "-lm"]
    subprocess.run(command, cwd=folder, check=True)


def programs(folder: Path) -> list[Program]:
    """Those that are installed here."""
    text, python = str(folder / "text"), sys.executable
    every = [
        Program("xz-1", "xz", ("xz", "-T1", "-1", "-k", "-c", text), 1, write_text),
        Program(
            "xz-2", "xz", ("xz", "-T2", "-1", "--block-size=2MiB", "-k", "-c", text), 2, write_text
        ),
        Program("sqlite", "sqlite3", ("sqlite3", ":memory:", SQL)),
        Program(
            "minimap2",
            "minimap2",
            ("minimap2", "-t", "2", "-a", str(folder / "genome.fa"), str(folder / "reads.fa")),
            2,
            write_reads,
        ),
        Program(
            "numpy-svd",
            python,
            (python, "-c", NUMPY.format(n=1, what="svd(a[:500,:500])", times=4)),
        ),
        Program(
            "numpy-mm", python, (python, "-c", NUMPY.format(n=2, what="inv(a)", times=14)), 2
        ),
        Program(
            "lammps",
            "lmp",
            ("lmp", "-in", str(folder / "melt.in"), "-log", "none", "-screen", "none"),
            1,
            write_lammps,
        ),
        Program(
            "gromacs",
            "gmx",
            ("gmx", "-quiet", "-nobackup", "mdrun", "-s", str(folder / "topol.tpr"), "-deffnm",
             str(folder / "water"), "-ntmpi", "1", "-ntomp", "2", "-nsteps", "300",
             "-notunepme"),
            2,
            write_gromacs,
        ),
        Program(
            "heat-mpi",
            "mpicc",
            ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2",
             str(folder / "heat"), "500", "700"),
            2,
            write_mpi,
        ),
        Program("own-omp", "gcc", (str(folder / "own"),), 2, write_own),
        Program("sort", "sort", ("sort", "--parallel=1", "-S", "1G", "-o", "/dev/null", text), 1,
                write_text),
    ]  # fmt: skip
    return [one for one in every if shutil.which(one.tool)]


class FreshSite:
    """The commands of the README on one cluster, each timed."""

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
        text = text.replace('partition = "full"\nnodes', 'partition = "full"\n'
                            "translation = { max_cores = 1 }\nnodes")  # fmt: skip
        self.site.write_text(
            f'{text}\n[daemon]\nsocket = "{self.cluster.berth_socket}"\n'
            f'store = "sqlite:///{self.work}/berth.db"\nkill_switch = "{self.work}/off"\n'
            'scheduler_users = ["root"]\nstate_refresh_s = 1\n'
        )
        said = self.berth(
            "site", "calibrate", "--site", str(self.site), "--at-once", "1", *calibration
        )
        daemon = self.cluster.before_others(BERTH, "serve", "--site", str(self.site))
        self.cluster.launch("berth", *daemon)
        self.cluster.set_filter_config(
            socket=self.cluster.berth_socket,
            kill_switch=self.work / "off",
            deadline_ms=2000,
            auto_partition="auto",
            reread_config_s=0,
        )
        self.cluster.set_job_submit(FILTER_PATH.read_text())
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

    def predicted(self, program: Program) -> dict[str, tuple[float, float, float]]:
        """By place: lower, middle and upper time; none where the prediction abstains."""
        told = json.loads(
            self.berth(
                "place", str(self._profiles(program)[-1]), "--site", str(self.site), "--json",
                "--cpus-per-task", str(program.threads), "--", "true",
            )
        )  # fmt: skip
        return {
            row["candidate"]: tuple(row["runtime_s"][k] for k in ("low", "mid", "high"))
            for row in told["ranked"]
            if row["runtime_s"] is not None and not row["guess"] and row["candidate"] in PLACES
        }

    def _profiles(self, program: Program) -> list[Path]:
        return sorted((self.work / "pilots").glob(f"{program.name}-??????.profile.json"))

    def timed(self, program: Program, place: str, runs: int = 3) -> float:
        """Median seconds on a place, in jobs that are not looked at."""
        words = shlex.join(program.command)
        script = self.work / f"{program.name}.sh"
        output = self.work / f"{program.name}-{place}.out"
        script.write_text(
            f"#!/bin/bash\nTIMEFORMAT='took %R'\n"
            f"for i in $(seq {runs}); do time {words} > /dev/null; done\n"
        )
        cpus = program.threads if place == "pair" else 1
        job = self.cluster.sbatch(
            "-p", place, "-c", str(cpus), "-o", str(output), str(script), user=None
        )
        self.cluster.wait_for_state(job.id, timeout_s=600)
        return statistics.median(
            float(line.split()[1])
            for line in output.read_text().splitlines()
            if line.startswith("took")
        )

    def placed(self, program: Program) -> tuple[str, str]:
        """Where the filter sends it, and its sentence."""
        wait_until(self._idle, "the nodes are idle", 60)
        time.sleep(2.5)  # until the daemon has read that, too
        job = self.cluster.sbatch(
            "-p", "auto", "-c", str(program.threads), f"--comment=berth:{program.name}",
            "--hold", str(self.work / f"{program.name}.sh"), user=None,
        )  # fmt: skip
        where = self.cluster.job(job.id)["Partition"]
        self.cluster.run("scancel", str(job.id))
        return where, job.message.strip()

    def _idle(self) -> bool:
        states = self.cluster.run("sinfo", "-h", "-N", "-o", "%T").stdout.split()
        return set(states) <= {"idle", "inact"}


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """The table and the figures."""
    rows = []
    for one in outcomes:
        times = one.predicted.get("full")
        rows.append(
            (
                one.program.name,
                str(one.program.threads),
                *(f"{one.took_s[p]:.2f} s" for p in PLACES),
                f"{times[0]:.2f} to {times[2]:.2f} s" if times is not None else "abstains",
                PLACES.get(one.best, one.best) + (" (or either)" if one.close else ""),
                PLACES.get(one.went, one.went),
                "WRONG" if one.wrong else "",
            )
        )
    header = ("program", "threads", "on A", "on B", "predicted on A", "best", "sent to", "")
    told = [one for one in outcomes if not one.close]
    covered = [hit for one in outcomes for hit in one.covered]
    widths = [one.predicted["full"][2] / one.predicted["full"][0]
              for one in outcomes if "full" in one.predicted]  # fmt: skip
    return [
        table_text(text_table("", header, rows), indent=2),
        f"wrong: {sum(one.wrong for one in outcomes)} of {len(told)} that differ by over 10 % "
        f"(always A: {sum(one.best != 'full' for one in told)} wrong, "
        f"always B: {sum(one.best != 'pair' for one in told)})",
        f"90 % intervals held: {sum(covered)} of {len(covered)}; median upper / lower: "
        f"{statistics.median(widths) if widths else math.nan:.2f}",
    ]


def run(site: FreshSite, wanted: Sequence[Program], *, runs: int = 3) -> list[Outcome]:
    """Every program piloted, timed on both places, and placed."""
    found = []
    for program in wanted:
        program.prepare(site.work)
        one, failed = Outcome(program), site.pilot(program)
        one.took_s = {place: site.timed(program, place, runs) for place in PLACES}
        if failed is None:
            one.predicted = site.predicted(program)
            one.went, one.said = site.placed(program)
        print(f"{program.name}: {failed or one.said}", flush=True)
        print(report([one])[0].splitlines()[-1], flush=True)
        found.append(one)
    return found


def main() -> None:
    """``fresh_site.py [--only NAME,NAME] [options of berth site calibrate]``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", type=lambda text: text.split(","))
    asked, calibration = parser.parse_known_args()
    with two_kinds() as cluster:
        site = FreshSite(cluster)
        print(site.install(*calibration), flush=True)
        every = programs(cluster.work)
        wanted = [one for one in every if asked.only is None or one.name in asked.only]
        for line in report(run(site, wanted)):
            print(line)


if __name__ == "__main__":
    try:
        main()
    except ClusterUnavailable as missing:
        sys.exit(f"no fresh site here: {missing}")
