"""Twenty real programs that are in no table of the project: the set ``new`` of ``make fresh-site``.

Ten compute with one thread, eight with two, two with two MPI ranks. Their inputs are drawn from a
fixed seed, so that each takes 2 to 5 s of processor time: a job of under two seconds teaches
nothing, since Slurm counts whole seconds.
"""

from __future__ import annotations

from pathlib import Path

from new_inputs import (
    write_beam,
    write_c,
    write_cg,
    write_cover,
    write_docking,
    write_family,
    write_film,
    write_gp,
    write_log,
    write_nexus,
    write_numbers,
    write_octave,
    write_pigeons,
    write_proteins,
    write_r,
    write_sam,
    write_scene,
    write_short_reads,
    write_sound,
    write_tree,
)
from site_programs import Program

GAWK = (
    "{ seen[$2] += $4; n = split($5, parts, /[-_]/); for (i = 1; i <= n; i++) words[parts[i]]++ }"
    " END { for (host in seen) total += seen[host]; print total, length(words) }"
)


MRBAYES = "/usr/lib/mrbayes-mpi/mb-mpi"
"""The program itself: ``mb-mpi`` in the path is a script that starts mpirun."""


def new_programs(folder: Path) -> list[Program]:
    """Return the twenty, their files below ``folder``."""
    one = [
        Program(
            "hmmsearch", "hmmsearch",
            ("hmmsearch", "--cpu", "0", "--noali", f"{folder}/motif.hmm", f"{folder}/proteins.fa"),
            1, write_proteins, "hmmer",
        ),
        Program("z3", "z3", ("z3", f"{folder}/pigeons.smt2"), 1, write_pigeons, "z3"),
        Program("gp", "gp", ("gp", "-q", "-f", f"{folder}/factor.gp"), 1, write_gp, "pari-gp"),
        Program("gawk", "gawk", ("gawk", GAWK, f"{folder}/log.txt"), 1, write_log, "gawk"),
        Program(
            "gcc", "gcc", ("gcc", "-O2", "-c", f"{folder}/many.c", "-o", f"{folder}/many.o"),
            1, write_c, "gcc",
        ),
        Program(
            "flac", "flac", ("flac", "-8", "-e", "-s", "-f", "-o", f"{folder}/sound.flac",
                             f"{folder}/sound.wav"),
            1, write_sound, "flac",
        ),
        Program(
            "fasttree", "fasttree", ("fasttree", "-nt", "-quiet", f"{folder}/tree.fa"),
            1, write_tree, "fasttree",
        ),
        Program("cbc", "cbc", ("cbc", f"{folder}/cover.lp", "solve", "quit"), 1, write_cover,
                "coinor-cbc"),
        Program("rscript", "Rscript", ("Rscript", "--vanilla", f"{folder}/glm.R"), 1, write_r,
                "r-base-core"),
        Program(
            "octave", "octave-cli", ("octave-cli", "--norc", "--quiet", f"{folder}/lorenz.m"),
            1, write_octave, "octave",
        ),
    ]  # fmt: skip
    two = [
        Program(
            "bwa", "bwa", ("bwa", "mem", "-v", "1", "-t", "2", f"{folder}/genome-bwa.fa",
                           f"{folder}/short.fq"),
            2, write_short_reads, "bwa",
        ),
        Program(
            "samtools", "samtools", ("samtools", "sort", "-@", "2", "-o", f"{folder}/sorted.bam",
                                     f"{folder}/unsorted.sam"),
            2, write_sam, "samtools",
        ),
        Program(
            "clustalo", "clustalo", ("clustalo", "--threads=2", "--force", "-i",
                                     f"{folder}/family.fa", "-o", f"{folder}/family.aln"),
            2, write_family, "clustalo",
        ),
        Program(
            "vina", "vina", ("vina", "--config", f"{folder}/dock.conf", "--cpu", "2", "--seed", "1",
                             "--out", f"{folder}/docked.pdbqt"),
            2, write_docking, "autodock-vina",
        ),
        Program(
            "povray", "povray", ("povray", f"+I{folder}/scene.pov", f"+O{folder}/scene.png",
                                 "+W1600", "+H1200", "+WT2", "-D", "-GA"),
            2, write_scene, "povray",
        ),
        Program(
            "x264", "x264", ("x264", "--quiet", "--no-progress", "--threads", "2", "-o",
                             f"{folder}/film.264", f"{folder}/film.y4m"),
            2, write_film, "x264",
        ),
        Program(
            "7z", "7z", ("7z", "a", "-bd", "-tbzip2", "-mx=7", "-mmt=2", "-so", "unused",
                         f"{folder}/numbers.txt"),
            2, write_numbers, "p7zip-full",
        ),
        Program(
            "ccx", "ccx", ("env", "OMP_NUM_THREADS=2", "ccx", "-i", f"{folder}/beam"),
            2, write_beam, "calculix-ccx",
        ),
    ]  # fmt: skip
    ranks = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2")
    mpi = [
        Program("mrbayes-mpi", MRBAYES, (*ranks, MRBAYES, f"{folder}/primates.nex"), 2,
                write_nexus, "mrbayes-mpi openmpi-bin"),
        Program("cg-mpi", "mpif90", (*ranks, f"{folder}/cg"), 2, write_cg,
                "gfortran libopenmpi-dev openmpi-bin"),
    ]  # fmt: skip
    return [*one, *two, *mpi]
