"""Eight real programs of 2 to 5 s, their inputs made here; Debian packages bring seven of them."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent
SEED = 7


@dataclass(frozen=True, slots=True)
class RealProgram:
    """A command that runs in its folder; ``package`` is what brings it on Debian."""

    name: str
    command: tuple[str, ...]
    package: str


def programs(folder: Path) -> list[RealProgram]:
    """Those whose program is installed, their inputs written below ``folder``."""
    made = []
    for name, needs, package, prepare in KINDS:
        if shutil.which(needs) is None:
            print(f"{name}: {needs} is not installed (Debian: {package})")
            continue
        below = folder / name
        below.mkdir(parents=True)
        made.append(RealProgram(name, tuple(prepare(below)), package))
    return made


def written_text(size: int) -> str:
    """Words by Zipf's cost model, as text has them."""
    chance = random.Random(SEED)  # noqa: S311 - data, not secrets
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(5000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        lines += [" ".join(chance.choices(words, weights, k=12)) + "\n" for _ in range(2000)]
    return "".join(lines)


def _lammps(folder: Path) -> Sequence[str]:
    (folder / "melt.in").write_text((SOURCES / "melt.in").read_text())
    return ("lmp", "-in", "melt.in", "-log", "none", "-screen", "none")


def _gromacs(folder: Path) -> Sequence[str]:
    for name in ("topol.top", "md.mdp"):
        (folder / name).write_text((SOURCES / name).read_text())
    for words in (
        "solvate -cs spc216.gro -box 3.72412 3.72412 3.72412 -o conf.gro -p topol.top",
        "grompp -f md.mdp -c conf.gro -p topol.top -o topol.tpr -maxwarn 2",
    ):
        subprocess.run(["gmx", "-quiet", *words.split()], cwd=folder, check=True,
                       capture_output=True)  # fmt: skip
    return ("gmx", "-quiet", "mdrun", "-ntmpi", "1", "-ntomp", "1", "-nsteps", "320", "-notunepme")


def _xz(folder: Path) -> Sequence[str]:
    (folder / "text").write_text(written_text(7_000_000))
    return ("xz", "-2", "-k", "-f", "text")


def _sqlite(folder: Path) -> Sequence[str]:
    (folder / "work.sql").write_text((SOURCES / "work.sql").read_text())
    return ("sqlite3", "work.db", ".read work.sql")


def _minimap2(folder: Path) -> Sequence[str]:
    chance = random.Random(SEED)  # noqa: S311 - data, not secrets
    genome = "".join(chance.choices("ACGT", k=1_500_000))
    (folder / "genome.fa").write_text(f">one\n{genome}\n")
    with (folder / "reads.fa").open("w") as reads:
        for number in range(2800):
            start = chance.randrange(len(genome) - 3000)
            read = [
                chance.choice("ACGT") if chance.random() < 0.08 else base
                for base in genome[start : start + 3000]
            ]
            reads.write(f">read{number}\n{''.join(read)}\n")
    return ("minimap2", "-t", "1", "-a", "-o", "out.sam", "genome.fa", "reads.fa")


def _numpy(folder: Path) -> Sequence[str]:
    (folder / "work.py").write_text((SOURCES / "work_numpy.py").read_text())
    return ("/usr/bin/python3", "work.py")


def _mpi(folder: Path) -> Sequence[str]:
    source = SOURCES / "heat_mpi.c"
    subprocess.run(["mpicc", "-O2", "-o", "heat", str(source), "-lm"], cwd=folder, check=True)
    return ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "./heat", "500", "700")


def _own(folder: Path) -> Sequence[str]:
    subprocess.run(["gcc", "-O2", "-o", "own", str(SOURCES / "own.c")], cwd=folder, check=True)
    return ("./own", "18000000")


KINDS: tuple[tuple[str, str, str, Callable[[Path], Sequence[str]]], ...] = (
    ("lammps", "lmp", "lammps", _lammps),
    ("gromacs", "gmx", "gromacs", _gromacs),
    ("xz", "xz", "xz-utils", _xz),
    ("sqlite", "sqlite3", "sqlite3", _sqlite),
    ("minimap2", "minimap2", "minimap2", _minimap2),
    ("numpy", "/usr/bin/python3", "python3-numpy", _numpy),
    ("mpi", "mpicc", "libopenmpi-dev", _mpi),
    ("own", "gcc", "gcc", _own),
)
