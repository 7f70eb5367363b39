"""Twenty-five programs drawn from Debian: the set ``third`` of ``make fresh-site``.

The rule: the packages of Debian 12 with the tags ``role::program`` and ``interface::commandline``,
at most 60 MB, of the sections science, math, sound, graphics, video, text, utils and electronics,
sorted, and drawn by ``random.Random(3).sample``. They are taken in that order until there are
twelve programs of one thread, seven of several and two scripts. Left out is what needs a terminal,
a network, a device or a desktop, what is in another set, what computes for less than half a second,
and what reads files that a few lines cannot make. The two over MPI are drawn in the same way from
the packages of section science that depend on ``libopenmpi3``. The two of several Python processes
were chosen, not drawn (networkx, sympy). A package that stops to fit is replaced by the next of its
draw.

Inputs are made here from a fixed seed; each program computes for 0.5 to 20 s.
"""

from __future__ import annotations

import random
import subprocess
import wave
from collections.abc import Sequence
from pathlib import Path

from new_inputs import AMINO_ACIDS, BASES, drawn, fasta, mutated
from site_programs import Program

SEED = 3
PYTHON = "/usr/bin/python3"


def _family(letters: str, length: int, many: int, share: float) -> list[str]:
    """Return sequences that differ from one by this share of their letters."""
    chance = random.Random(SEED)
    first = drawn(letters, length, chance)
    return [mutated(first, letters, share, chance) for _ in range(many)]


def _fasta(file: Path, sequences: Sequence[str]) -> None:
    file.write_text(fasta(sequences))


def _words(many: int) -> list[str]:
    chance = random.Random(SEED)
    known = [drawn("abcdefghijklmnopqrstuvwxyz", chance.randint(2, 9), chance) for _ in range(5000)]
    return chance.choices(known, k=many)


def _run(*command: object, cwd: Path | None = None) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, cwd=cwd)


def write_prose(folder: Path) -> None:
    words = _words(900_000)
    lines = [" ".join(words[n : n + 11]) for n in range(0, len(words), 11)]
    (folder / "prose.txt").write_text("\n".join(lines))


def write_gene(folder: Path) -> None:
    chance = random.Random(SEED)
    _fasta(folder / "gene.fa", [drawn(BASES, 90_000, chance)])
    _fasta(folder / "protein.fa", [drawn(AMINO_ACIDS, 300, chance)])


def write_journal(folder: Path) -> None:
    chance = random.Random(SEED)
    entries = [
        f"2025-{1 + n % 12:02}-{1 + n % 28:02} shop {chance.randrange(300)}\n"
        f"  expenses:kind{chance.randrange(40)}  {chance.randrange(1, 9999) / 100:.2f} EUR\n"
        f"  assets:bank{chance.randrange(5)}\n"
        for n in range(50_000)
    ]
    (folder / "year.journal").write_text("\n".join(entries))


def write_locked(folder: Path) -> None:
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>",
    )
    text, offsets = "%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        offsets.append(len(text))
        text += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    text += f"xref\n0 4\n0000000000 65535 f \n{table}trailer\n<< /Size 4 /Root 1 0 R >>\n"
    (folder / "open.pdf").write_text(f"{text}startxref\n{text.index('xref')}\n%%EOF\n")
    encrypt = ("--allow-weak-crypto", "--encrypt", "zzzz", "zzzz", "128", "--")
    _run("qpdf", *encrypt, folder / "open.pdf", folder / "locked.pdf")


def write_map(folder: Path) -> None:
    chance = random.Random(SEED)
    genome = drawn(BASES, 1_500_000, chance)
    _fasta(folder / "genome.fa", [genome])
    starts = [chance.randrange(len(genome) - 40) for _ in range(120_000)]
    reads = (f"@r{n}\n{genome[s : s + 36]}\n+\n{'I' * 36}\n" for n, s in enumerate(starts))
    (folder / "reads.fq").write_text("".join(reads))
    _run("maq", "fasta2bfa", folder / "genome.fa", folder / "genome.bfa")
    _run("maq", "fastq2bfq", folder / "reads.fq", folder / "reads.bfq")


def write_contig(folder: Path) -> None:
    _fasta(folder / "contig.fa", [drawn(BASES, 250_000, random.Random(SEED))])


def write_relatives(folder: Path) -> None:
    _fasta(folder / "relatives.fa", _family(AMINO_ACIDS, 500, 40, 0.3))


def write_few_relatives(folder: Path) -> None:
    _fasta(folder / "few.fa", _family(AMINO_ACIDS, 400, 22, 0.4))


def _noise_picture(file: Path, width: int, height: int) -> None:
    greys = bytes(90 + value // 4 for value in range(256))
    chance = random.Random(SEED)
    noise = b"".join(chance.randbytes(3 * width).translate(greys) for _ in range(height))
    file.write_bytes(f"P6 {width} {height} 255\n".encode() + noise)


def write_photo(folder: Path) -> None:
    _noise_picture(folder / "photo.ppm", 12_000, 9600)
    _run("cjpeg", "-quality", "95", "-outfile", folder / "photo.jpg", folder / "photo.ppm")


def write_tone(folder: Path) -> None:
    with wave.open(str(folder / "tone.wav"), "wb") as sound:
        sound.setparams((2, 2, 44_100, 0, "NONE", ""))
        chance = random.Random(SEED)
        second = b"".join(chance.randrange(-9000, 9000).to_bytes(2, "little", signed=True) * 2
                          for _ in range(44_100))  # fmt: skip
        sound.writeframes(second * 900)


def write_packed(folder: Path) -> None:
    (folder / "words.txt").write_text("\n".join(_words(2_500_000)))
    _run("gzip", "-1", "-k", "-f", folder / "words.txt")


def write_large(folder: Path) -> None:
    (folder / "large.txt").write_text("\n".join(_words(9_000_000)))


def write_genotypes(folder: Path) -> None:
    chance = random.Random(SEED)
    markers = 6000
    (folder / "study.map").write_text("".join(f"1 m{n} 0 {n + 1}\n" for n in range(markers)))
    lines = (
        f"f{n} i{n} 0 0 1 {1 + n % 2} {' '.join(chance.choices('AG', k=2 * markers))}\n"
        for n in range(3000)
    )
    (folder / "study.ped").write_text("".join(lines))


def write_short(folder: Path) -> None:
    chance = random.Random(SEED)
    genome = drawn(BASES, 400_000, chance)
    starts = [chance.randrange(len(genome) - 60) for _ in range(250_000)]
    _fasta(folder / "short.fa", [genome[s : s + 50] for s in starts])


def write_database(folder: Path) -> None:
    chance = random.Random(SEED)
    pool = drawn(AMINO_ACIDS, 400_000, chance)
    proteins = [pool[s : s + 300] for s in (chance.randrange(len(pool) - 300) for _ in range(9000))]
    _fasta(folder / "database.fa", proteins)
    _fasta(folder / "queries.fa", proteins[::300])
    _run("makeblastdb", "-dbtype", "prot", "-in", folder / "database.fa")


def write_clip(folder: Path) -> None:
    chance = random.Random(SEED)
    width, height = 640, 360
    frame = bytes(chance.randrange(256) for _ in range(width * height))
    with (folder / "clip.y4m").open("wb") as film:
        film.write(f"YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420jpeg\n".encode())
        for n in range(90):
            start = 7 * n
            film.write(b"FRAME\n" + frame[start:] + frame[:start] + b"\x80" * (width * height // 2))


def write_bytes(folder: Path) -> None:
    (folder / "data.bin").write_bytes(random.Random(SEED).randbytes(60_000_000))


def write_still(folder: Path) -> None:
    _noise_picture(folder / "still.ppm", 2400, 1600)


def write_clusters(folder: Path) -> None:
    chance = random.Random(SEED)
    families = [drawn(AMINO_ACIDS, 300, chance) for _ in range(6000)]
    members = (
        "".join(
            chance.choice(AMINO_ACIDS) if chance.random() < 0.2 else c for c in families[n % 6000]
        )
        for n in range(18_000)
    )
    _fasta(folder / "clusters.fa", list(members))


def write_paths(folder: Path) -> None:
    (folder / "paths.py").write_text(
        "import multiprocessing, networkx as nx\n"
        "def reach(seed):\n"
        "    g = nx.gnm_random_graph(1000, 4000, seed)\n"
        "    return sum(nx.closeness_centrality(g).values())\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.Pool(2) as pool:\n"
        "        print(sum(pool.map(reach, range(4))))\n"
    )


def write_series(folder: Path) -> None:
    (folder / "series.py").write_text(
        "from concurrent.futures import ProcessPoolExecutor\nimport sympy\n"
        "def terms(n):\n"
        "    x = sympy.Symbol('x')\n"
        "    return len(sympy.expand((x + n + 1) ** 60 * (x - n) ** 60).args) + sum(\n"
        "        len(sympy.factorint(10 ** 19 + k)) for k in range(n, n + 25))\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(2) as pool:\n"
        "        print(sum(pool.map(terms, range(8))))\n"
    )


def write_symbols(folder: Path) -> None:
    (folder / "expand.frm").write_text(
        "Off statistics;\nSymbols a,b,c,d,e,f;\nLocal F = (a+b+c+d+e+f)^24;\n.sort\n"
        "Local G = F*(a-b);\nid a = b + c;\n.end\n"
    )


def write_hpcc(folder: Path) -> None:
    (folder / "hpcc").mkdir(exist_ok=True)
    (folder / "hpcc" / "hpccinf.txt").write_text(
        "HPLinpack benchmark input file\nnone\nHPL.out\n8\n1\n1000\n1\n80\n0\n1\n1\n2\n16.0\n1\n2\n"
        "1\n4\n1\n2\n1\n1\n1\n0\n1\n0\n2\n64\n0\n0\n1\n8\n0\n1200\n0\n40\n"
    )


def write_loop(folder: Path) -> None:
    (folder / "digits.sh").write_text(
        "#!/bin/sh\nfor n in 1 2 3 4 5 6; do\n"
        '  echo "$((n * 400))k 2 v 3 v * 5 v + p" | dc | cksum\n'
        "  i=0; while [ $i -lt 150000 ]; do i=$((i + 1)); done\ndone\n"
    )


def write_sums(folder: Path) -> None:
    chance = random.Random(SEED)
    (folder / "numbers.txt").write_text("".join(f"{chance.random():.6f}\n" for _ in range(400_000)))
    (folder / "sums.sh").write_text(
        f"#!/bin/sh\nfor n in 1 2 3; do numround -n 0.$n {folder}/numbers.txt | sort -n | uniq -c "
        "| numsum; done\n"
    )


def third_programs(folder: Path) -> list[Program]:
    """Return the twenty-five, their files below ``folder``."""
    at = str(folder)
    one = [
        Program("txt2html", "txt2html", ("txt2html", "--infile", f"{at}/prose.txt", "--outfile",
                f"{at}/prose.html"), 1, write_prose, "txt2html"),
        Program("genewise", "genewise", ("env", "WISECONFIGDIR=/usr/share/wise/", "genewise",
                f"{at}/protein.fa", f"{at}/gene.fa"), 1, write_gene, "wise"),
        Program("hledger", "hledger", ("hledger", "-f", f"{at}/year.journal", "balance",
                "--monthly"), 1, write_journal, "hledger"),
        Program("maq", "maq", ("maq", "map", f"{at}/reads.map", f"{at}/genome.bfa",
                f"{at}/reads.bfq"), 1, write_map, "maq"),
        Program("pdfcrack", "pdfcrack", ("pdfcrack", "-q", "-f", f"{at}/locked.pdf", "-n", "4",
                "-m", "4", "-c", "abcdefghijklmnopqrstuvwxyz"), 1, write_locked, "pdfcrack qpdf"),
        Program("augustus", "augustus", ("augustus", "--species=human", f"{at}/contig.fa"), 1,
                write_contig, "augustus"),
        Program("poa", "poa", ("poa", "-read_fasta", f"{at}/relatives.fa", "-clustal",
                f"{at}/relatives.aln", "/usr/share/poa/blosum80.mat"), 1, write_relatives, "poa"),
        Program("dialign", "dialign2-2", ("env", "DIALIGN2_DIR=/usr/share/dialign", "dialign2-2",
                f"{at}/few.fa"), 1, write_few_relatives, "dialign"),
        Program("jpegoptim", "jpegoptim", ("jpegoptim", "-q", "-f", "-m70", "--stdout",
                f"{at}/photo.jpg"), 1, write_photo, "jpegoptim libjpeg-turbo-progs"),
        Program("ecasound", "ecasound", ("ecasound", "-q", "-i", f"{at}/tone.wav", "-o",
                f"{at}/echo.wav", "-etr:40,0,55", "-efl:2000", "-etd:60,0,3,50"), 1, write_tone,
                "ecasound"),
        Program("advdef", "advdef", ("advdef", "-z", "-4", "-q", f"{at}/words.txt.gz"), 1,
                write_packed, "advancecomp"),
        Program("rzip", "rzip", ("rzip", "-k", "-f", "-6", "-o", f"{at}/large.rz",
                f"{at}/large.txt"), 1, write_large, "rzip"),
    ]  # fmt: skip
    two = [
        Program("velveth", "velveth", ("env", "OMP_NUM_THREADS=1", "OMP_THREAD_LIMIT=2", "velveth",
                f"{at}/velvet", "21", "-short", "-fasta", f"{at}/short.fa"), 2, write_short,
                "velvet"),
        Program("plink", "plink1.9", ("plink1.9", "--file", f"{at}/study", "--threads", "2",
                "--genome", "--out", f"{at}/study"), 2, write_genotypes, "plink1.9"),
        Program("blastp", "blastp", ("blastp", "-num_threads", "2", "-query", f"{at}/queries.fa",
                "-db", f"{at}/database.fa"), 2, write_database, "ncbi-blast+"),
        Program("vpxenc", "vpxenc", ("vpxenc", "--codec=vp9", "--threads=2", "--row-mt=1", "-q",
                "--cpu-used=4", "--end-usage=q", "--cq-level=40", "-o", f"{at}/clip.webm",
                f"{at}/clip.y4m"), 2, write_clip, "vpx-tools"),
        Program("par2", "par2", ("sh", "-c", f"rm -f {at}/data*.par2; exec par2 create -q -q -t2 "
                f"-r12 -s60000 {at}/data {at}/data.bin"), 2, write_bytes, "par2"),
        Program("cd-hit", "cd-hit", ("cd-hit", "-T", "2", "-c", "0.7", "-i", f"{at}/clusters.fa",
                "-o", f"{at}/clusters"), 2, write_clusters, "cd-hit"),
        Program("gmic", "gmic", ("env", "OMP_NUM_THREADS=2", "gmic", f"{at}/still.ppm",
                "smooth", "200", "output", f"{at}/calm.ppm"), 2, write_still, "gmic"),
    ]  # fmt: skip
    ranks = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2")
    rest = [
        Program("networkx", PYTHON, (PYTHON, f"{at}/paths.py"), 2, write_paths, "python3-networkx"),
        Program("sympy", PYTHON, (PYTHON, f"{at}/series.py"), 2, write_series, "python3-sympy"),
        Program("parform", "parform", (*ranks, "parform", f"{at}/expand.frm"), 2, write_symbols,
                "form openmpi-bin"),
        Program("hpcc", "hpcc", ("env", "--chdir", f"{at}/hpcc", "OMP_NUM_THREADS=1", *ranks,
                "hpcc"), 2, write_hpcc, "hpcc openmpi-bin"),
        Program("dc", "dc", ("sh", f"{at}/digits.sh"), 1, write_loop, "dc"),
        Program("numsum", "numsum", ("sh", f"{at}/sums.sh"), 1, write_sums, "num-utils"),
    ]  # fmt: skip
    return [*one, *two, *rest]
