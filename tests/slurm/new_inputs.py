"""Inputs of the twenty programs of ``new_programs.py``, drawn from a fixed seed.

Each function writes one program's files to a folder, the same ones every time.
"""

from __future__ import annotations

import random
import subprocess
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SEED = 20
AMINO_ACIDS, BASES = "ACDEFGHIKLMNPQRSTVWY", "ACGT"


def drawn(letters: str, length: int, chance: random.Random) -> str:
    """Return random text of these letters."""
    return "".join(chance.choices(letters, k=length))


def mutated(text: str, letters: str, share: float, chance: random.Random) -> str:
    """Return the text with this share of its letters drawn anew."""
    return "".join(chance.choice(letters) if chance.random() < share else c for c in text)


def fasta(sequences: Sequence[str]) -> str:
    """Return the sequences as a file of FASTA."""
    return "".join(f">s{n}\n{text}\n" for n, text in enumerate(sequences))


def _descendants(
    root: str, letters: str, generations: int, share: float, chance: random.Random
) -> list[str]:
    """Return the 2^generations leaves of a binary tree of mutations."""
    leaves = [root]
    for _ in range(generations):
        leaves = [mutated(leaf, letters, share, chance) for leaf in leaves for _ in range(2)]
    return leaves


def write_proteins(folder: Path) -> None:
    """A profile of a motif, and a database in which some proteins have it."""
    chance = random.Random(SEED)
    motif = drawn(AMINO_ACIDS, 200, chance)
    family = [mutated(motif, AMINO_ACIDS, 0.3, chance) for _ in range(30)]
    (folder / "motif.fa").write_text(fasta(family))
    build = ["hmmbuild", "--amino", "--cpu", "0", folder / "motif.hmm", folder / "motif.fa"]
    subprocess.run(build, check=True, capture_output=True)
    pool = drawn(AMINO_ACIDS, 1_000_000, chance)
    starts = [chance.randrange(len(pool) - 350) for _ in range(450_000)]
    proteins = [pool[start : start + 350] for start in starts]
    proteins[::1000] = [mutated(motif, AMINO_ACIDS, 0.4, chance) for _ in proteins[::1000]]
    (folder / "proteins.fa").write_text(fasta(proteins))


def write_pigeons(folder: Path, holes: int = 9) -> None:
    """Twice: one pigeon more than there are holes, so that no assignment exists."""
    pigeons = range(holes + 1)
    lines = [f"(declare-const p{p}_{h} Bool)" for p in pigeons for h in range(holes)]
    lines += [f"(assert (or {' '.join(f'p{p}_{h}' for h in range(holes))}))" for p in pigeons]
    lines += [
        f"(assert (or (not p{p}_{h}) (not p{q}_{h})))"
        for h in range(holes) for p in pigeons for q in range(p)
    ]  # fmt: skip
    (folder / "pigeons.smt2").write_text("\n".join([*lines, "(check-sat)", "(reset)"] * 2))


def write_gp(folder: Path) -> None:
    """Factors of numbers of 45 digits."""
    (folder / "factor.gp").write_text(
        "default(parisizemax, 512000000);\n"
        "for(i = 1, 20, print(factorint(nextprime(10^21 + 7919 * i) * nextprime(10^23 + 104729"
        " * i))));\nquit\n"
    )


def write_log(folder: Path) -> None:
    """Lines of a web server's log."""
    chance = random.Random(SEED)
    with (folder / "log.txt").open("w") as file:
        for n in range(600_000):
            file.write(
                f"{n} host{chance.randrange(40_000)} GET {chance.randrange(10**6)} "
                f"page-{chance.randrange(3000)}_part-{chance.randrange(50)}\n"
            )


def write_c(folder: Path) -> None:
    """Functions that each differ a little."""
    chance = random.Random(SEED)
    functions = [
        f"double f{n}(double *x, int n) {{ double s = 0; for (int i = 1; i < n - 1; i++) {{ "
        f"if (x[i] > {chance.random():.6f}) s += x[i - 1] * {chance.random():.6f}; "
        f"else x[i] = x[i + 1] / (s + {chance.random():.6f}); "
        f"switch ((int)x[i] & 7) {{ case {n % 5}: s -= x[i]; break; case 6: s *= 2; break; "
        f"default: s += i; }} }} return s; }}"
        for n in range(320)
    ]
    (folder / "many.c").write_text("\n".join(functions))


def write_sound(folder: Path) -> None:
    rng, rate, seconds = np.random.default_rng(SEED), 44_100, 160
    t = np.arange(rate * seconds) / rate
    left = sum(np.sin(2 * np.pi * f * t * (1 + 0.001 * np.sin(t))) for f in (220, 277, 330))
    both = np.stack([left, np.roll(left, 400)], axis=1) * 8000
    both += rng.normal(0, 150, both.shape)
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(both.astype("<i2").tobytes())


def write_tree(folder: Path) -> None:
    """Genes of 256 species."""
    chance = random.Random(SEED)
    root = drawn(BASES, 450, chance)
    (folder / "tree.fa").write_text(fasta(_descendants(root, BASES, 8, 0.05, chance)))


def write_cover(folder: Path, sets: int = 70, elements: int = 120) -> None:
    """The cheapest sets that cover every element."""
    chance = random.Random(SEED)
    costs = [chance.randint(3, 9) for _ in range(sets)]
    rows = [
        " + ".join(f"x{s}" for s in sorted(chance.sample(range(sets), 7))) + " >= 1"
        for _ in range(elements)
    ]
    goal = " + ".join(f"{cost} x{s}" for s, cost in enumerate(costs))
    (folder / "cover.lp").write_text(
        f"Minimize\n cost: {goal}\nSubject To\n "
        + "\n ".join(f"r{n}: {row}" for n, row in enumerate(rows))
        + "\nBinary\n " + " ".join(f"x{s}" for s in range(sets)) + "\nEnd\n"
    )  # fmt: skip


def write_r(folder: Path) -> None:
    """A bootstrap of a logistic regression."""
    (folder / "glm.R").write_text(
        "set.seed(20)\nn <- 4000\nx <- matrix(rnorm(n * 6), n)\n"
        "y <- rbinom(n, 1, plogis(x[, 1] - 0.5 * x[, 2]))\n"
        "b <- replicate(320, { i <- sample(n, replace = TRUE)\n"
        "  coef(glm.fit(cbind(1, x[i, ]), y[i], family = binomial())) })\n"
        "print(apply(b, 1, sd))\n"
    )


def write_octave(folder: Path) -> None:
    """The Lorenz equations by an interpreted Runge-Kutta method."""
    (folder / "lorenz.m").write_text(
        "f = @(v) [10*(v(2)-v(1)); v(1)*(28-v(3))-v(2); v(1)*v(2)-8/3*v(3)];\n"
        "v = [1; 1; 1]; h = 0.002; s = 0;\n"
        "for i = 1:32000\n  a = f(v); b = f(v + h/2*a); c = f(v + h/2*b); d = f(v + h*c);\n"
        "  v = v + h/6*(a + 2*b + 2*c + d); s = s + v(3);\nend\nprintf('%g\\n', s);\n"
    )


def write_short_reads(folder: Path) -> None:
    """An indexed genome and reads of 150 bases with errors."""
    chance = random.Random(SEED)
    genome = drawn(BASES, 1_500_000, chance)
    (folder / "genome-bwa.fa").write_text(f">g\n{genome}\n")
    index = ["bwa", "index", folder / "genome-bwa.fa"]
    subprocess.run(index, check=True, capture_output=True)
    with (folder / "short.fq").open("w") as file:
        for n in range(36_000):
            at = chance.randrange(len(genome) - 150)
            read = mutated(genome[at : at + 150], BASES, 0.02, chance)
            file.write(f"@r{n}\n{read}\n+\n{'I' * 150}\n")


def write_sam(folder: Path) -> None:
    chance = random.Random(SEED)
    with (folder / "unsorted.sam").open("w") as file:
        file.write("@HD\tVN:1.6\tSO:unsorted\n@SQ\tSN:g\tLN:1000000\n")
        genome, qualities = (drawn(letters, 1_000_000, chance) for letters in (BASES, "F:,F#"))
        for n in range(900_000):
            at = chance.randrange(1, len(genome) - 100)
            read, quality = genome[at : at + 100], qualities[at : at + 100]
            file.write(f"r{n}\t0\tg\t{at}\t60\t100M\t*\t0\t0\t{read}\t{quality}\n")


def write_family(folder: Path) -> None:
    """Proteins of one family, of which each lacks a piece."""
    chance = random.Random(SEED)
    leaves = _descendants(drawn(AMINO_ACIDS, 260, chance), AMINO_ACIDS, 6, 0.08, chance)
    cuts = [chance.randrange(200) for _ in leaves]
    (folder / "family.fa").write_text(
        fasta([leaf[:cut] + leaf[cut + 20 :] for leaf, cut in zip(leaves, cuts, strict=True)])
    )


def _atom(number: int, element: str, place: tuple[float, float, float]) -> str:
    x, y, z = place
    return (
        f"ATOM  {number:5d}  {element:<3s} LIG A   1    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00"
        f"    {0.0:+6.3f} {element}"
    )


def write_docking(folder: Path) -> None:
    """A made-up pocket of atoms around the origin, and a chain with four bonds that turn."""
    chance = random.Random(SEED)
    shell: list[tuple[float, float, float]] = []
    while len(shell) < 900:
        x, y, z = (chance.uniform(-16, 16) for _ in range(3))
        if x * x + y * y + z * z > 60:
            shell.append((x, y, z))
    receptor = [_atom(n + 1, chance.choice(["C", "OA", "N"]), p) for n, p in enumerate(shell)]
    (folder / "pocket.pdbqt").write_text("\n".join(receptor) + "\n")
    lines, ends, number = ["ROOT"], [], 0
    for part in range(5):
        if part:
            lines += [f"BRANCH {number:3d} {number + 1:3d}"]
            ends.append(f"ENDBRANCH {number:3d} {number + 1:3d}")
        for _ in range(4):
            number += 1
            place = (1.25 * number, 0.8 * (number % 2), 0.3 * part)
            lines.append(_atom(number, "OA" if number % 7 == 0 else "C", place))
        if not part:
            lines.append("ENDROOT")
    lines += [*reversed(ends), f"TORSDOF {len(ends)}"]
    (folder / "chain.pdbqt").write_text("\n".join(lines) + "\n")
    (folder / "dock.conf").write_text(
        f"receptor = {folder}/pocket.pdbqt\nligand = {folder}/chain.pdbqt\n"
        "center_x = 0\ncenter_y = 0\ncenter_z = 0\nsize_x = 18\nsize_y = 18\nsize_z = 18\n"
        "exhaustiveness = 1\n"
    )


def write_scene(folder: Path) -> None:
    """Mirroring balls under two lamps."""
    chance = random.Random(SEED)
    balls = [
        f"sphere {{ <{chance.uniform(-6, 6):.3f}, {chance.uniform(-3, 3):.3f}, "
        f"{chance.uniform(2, 14):.3f}>, {chance.uniform(0.3, 0.9):.3f} pigment {{ color rgb "
        f"<{chance.random():.2f}, {chance.random():.2f}, {chance.random():.2f}> }} "
        f"finish {{ reflection 0.35 phong 0.8 }} }}"
        for _ in range(160)
    ]
    (folder / "scene.pov").write_text(
        "#version 3.7;\nglobal_settings { assumed_gamma 1.0 max_trace_level 6 }\n"
        "camera { location <0, 0, -9> look_at <0, 0, 4> }\n"
        "light_source { <10, 15, -20> color rgb 1 }\nlight_source { <-12, 9, -10> color rgb 0.6 }\n"
        "plane { y, -4 pigment { checker color rgb 0.9, color rgb 0.2 } }\n" + "\n".join(balls)
    )


def write_film(folder: Path) -> None:
    """Moving waves with noise, 210 pictures."""
    rng, width, height = np.random.default_rng(SEED), 640, 360
    y, x = np.mgrid[0:height, 0:width]
    with (folder / "film.y4m").open("wb") as file:
        file.write(b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n" % (width, height))
        for n in range(210):
            picture = 128 + 60 * np.sin((x + 7 * n) / 23) * np.cos((y - 3 * n) / 17)
            picture = picture + rng.normal(0, 4, picture.shape)
            file.write(b"FRAME\n" + picture.clip(0, 255).astype("u1").tobytes())
            file.write(np.full(width * height // 2, 128, "u1").tobytes())


def write_numbers(folder: Path) -> None:
    """Columns of numbers, as results are written."""
    rng = np.random.default_rng(SEED)
    steps = np.cumsum(rng.normal(0, 1, (70_000, 12)), axis=0)
    np.savetxt(folder / "numbers.txt", steps, fmt="%.5f")


def write_beam(folder: Path, n: tuple[int, int, int] = (50, 12, 12)) -> None:
    """A beam of bricks, held at one end, drawn at the other."""

    def node(i: int, j: int, k: int) -> int:
        return 1 + i + (n[0] + 1) * (j + (n[1] + 1) * k)

    lines = ["*NODE, NSET=ALL"]
    lines += [
        f"{node(i, j, k)}, {i}, {j}, {k}"
        for k in range(n[2] + 1) for j in range(n[1] + 1) for i in range(n[0] + 1)
    ]  # fmt: skip
    lines.append("*ELEMENT, TYPE=C3D8, ELSET=BEAM")
    corners = ((0, 0), (1, 0), (1, 1), (0, 1))
    cells = [(i, j, k) for k in range(n[2]) for j in range(n[1]) for i in range(n[0])]
    for number, (i, j, k) in enumerate(cells, 1):
        ends = [node(i + a, j + b, k + c) for c in (0, 1) for a, b in corners]
        lines.append(f"{number}, {', '.join(map(str, ends))}")
    sides = [(j, k) for k in range(n[2] + 1) for j in range(n[1] + 1)]
    lines += ["*MATERIAL, NAME=STEEL", "*ELASTIC", "210000, 0.3"]
    lines += ["*SOLID SECTION, ELSET=BEAM, MATERIAL=STEEL", "*STEP", "*STATIC", "*BOUNDARY"]
    lines += [f"{node(0, j, k)}, 1, 3" for j, k in sides]
    lines += ["*CLOAD", *(f"{node(n[0], j, k)}, 3, -1." for j, k in sides), "*END STEP"]
    (folder / "beam.inp").write_text("\n".join(lines) + "\n")


def write_nexus(folder: Path) -> None:
    """Genes of 16 species, and the commands of a short Markov chain."""
    chance = random.Random(SEED)
    leaves = _descendants(drawn(BASES, 900, chance), BASES, 4, 0.06, chance)
    matrix = "\n".join(f"s{n} {leaf}" for n, leaf in enumerate(leaves))
    (folder / "primates.nex").write_text(
        "#NEXUS\nbegin data;\ndimensions ntax=16 nchar=900;\nformat datatype=dna;\nmatrix\n"
        f"{matrix}\n;\nend;\nbegin mrbayes;\nset autoclose=yes nowarnings=yes seed=1 swapseed=1;\n"
        f"lset nst=6 rates=gamma;\nmcmcp ngen=7000 nruns=1 nchains=4 samplefreq=500 "
        f"printfreq=2000 diagnfreq=7000 filename={folder}/primates;\nmcmc;\nend;\n"
    )


def write_cg(folder: Path) -> None:
    """Conjugate gradients in Fortran, compiled here."""
    command = ["mpif90", "-O2", "-o", folder / "cg", Path(__file__).with_name("cg_mpi.f90")]
    subprocess.run([*command, f"-J{folder}"], check=True)
