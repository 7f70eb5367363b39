"""Eleven real programs whose figures are in docs/figures-program.md: the set ``known``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from site_programs import Program


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


def known_programs(folder: Path) -> list[Program]:
    """Return the eleven, their files in ``folder``."""
    text, python = str(folder / "text"), sys.executable
    return [
        Program("xz-1", "xz", ("xz", "-T1", "-1", "-k", "-c", text), 1, write_text,
                "xz-utils"),
        Program("xz-2", "xz", ("xz", "-T2", "-1", "--block-size=2MiB", "-k", "-c", text), 2,
                write_text, "xz-utils"),
        Program("sqlite", "sqlite3", ("sqlite3", ":memory:", SQL), package="sqlite3"),
        Program(
            "minimap2",
            "minimap2",
            ("minimap2", "-t", "2", "-a", str(folder / "genome.fa"), str(folder / "reads.fa")),
            2,
            write_reads,
            "minimap2",
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
            "lammps",
        ),
        Program(
            "gromacs",
            "gmx",
            ("gmx", "-quiet", "-nobackup", "mdrun", "-s", str(folder / "topol.tpr"), "-deffnm",
             str(folder / "water"), "-ntmpi", "1", "-ntomp", "2", "-nsteps", "300",
             "-notunepme"),
            2,
            write_gromacs,
            "gromacs",
        ),
        Program(
            "heat-mpi",
            "mpicc",
            ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2",
             str(folder / "heat"), "500", "700"),
            2,
            write_mpi,
            "libopenmpi-dev openmpi-bin",
        ),
        Program("own-omp", "gcc", (str(folder / "own"),), 2, write_own),
        Program("sort", "sort", ("sort", "--parallel=1", "-S", "1G", "-o", "/dev/null", text), 1,
                write_text),
    ]  # fmt: skip
