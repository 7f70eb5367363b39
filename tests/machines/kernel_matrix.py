"""The kernels' check on other machines: compilers, levels of x86-64, CPUs and architectures.

    python tests/machines/kernel_matrix.py            (all that is installed here; `make machines`)

A row builds the kernels as a site does and once more with faults planted in five of them, runs the
check and the rates of a core natively or under qemu-user, and passes where all 80 kernels pass and
exactly the five are found. What is not installed is named. As root, compilers and a newer qemu come
from the root folders of Debian 12 and 13 that tests/machines/roots makes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.suite_build import COMMON_FLAGS

SOURCES = Path(__file__).parents[2] / "pilot" / "kernels"
KERNELS = 80
FAULTS = {
    "Polybench_FDTD_2D": ("polybench_stencil.c", "- 0.7 *", "- 0.71 *"),
    "Single_PAIRS": ("single.c", "sixth - 0.5f", "sixth - 0.52f"),
    "Stream_TRIAD": (
        "stream.c", "a[i] = b[i] + alpha * c[i]", "a[i] = i < n - 1 ? b[i] + alpha * c[i] : 0.0",
    ),
    "Lcals_FIRST_DIFF": (
        "lcals.c", "x[i] = y[i + 1] - y[i]", "x[i + (i + 1 == n ? 2 : 0)] = y[i + 1] - y[i]",
    ),
    "Irregular_CHASE": ("irregular.c", "w->result[0] = at;", "w->result[0] = *(volatile int *)8;"),
}  # fmt: skip
"""Kernel, file, text, fault: two wrong constants, a last element, a write past the end, a crash."""

RATES = ("flops_f64", "flops_f32", "int_ops", "scalar_chain", "branchy", "atomic")
"""Parts of the machine benchmark that are written for an instruction set."""
MODELS = {
    "Nehalem": "x86-64-v2",
    "Opteron_G3": "x86-64",
    "Haswell": "x86-64-v3",
    "Skylake-Client": "x86-64-v3",
    "EPYC-Milan": "x86-64-v3",  # Zen 3
    "EPYC-Genoa": "x86-64-v3",  # Zen 4; qemu has no AVX-512
}
"""qemu's CPU models, each with the level of x86-64 that it has."""
LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
COMPILERS = (
    *(f"gcc-{version}" for version in range(11, 15)),
    *(f"clang-{version}" for version in range(14, 20)),
)
FOREIGN = {
    "aarch64": "aarch64-linux-gnu",
    "ppc64le": "powerpc64le-linux-gnu",
    "riscv64": "riscv64-linux-gnu",
    "s390x": "s390x-linux-gnu",
}
"""Architectures as qemu-user names them, with the prefix of their cross compilers."""
ROOTS = [
    Path(os.environ.get("BERTH_MACHINES", "/var/tmp/berth-machines")) / release
    for release in ("trixie", "bookworm")
]
MISCOMPILED = {("gcc-14", "x86-64-v4"): ["Single_PAIRS"]}
"""Kernels that a compiler gets wrong, as the check finds. gcc 14.2 with AVX-512 adds under a
condition so that the term takes the place of the sum where the condition does not hold (``vaddpd
%ymm14, %ymm5, %ymm15{%k1}``, the term in ymm14 and in ymm15). Berth builds for v3 at most."""
_LIMIT_S = 1800


@dataclass(frozen=True)
class Row:
    """One line of the matrix: what is built, and what it runs on ("" for the machine itself)."""

    compiler: str
    level: str = ""
    """Of x86-64."""
    architecture: str = ""
    """A foreign one."""
    model: str = ""
    """CPU model of qemu-user."""

    @property
    def name(self) -> str:
        """Return the first columns of the row."""
        place = self.model or self.architecture or "native"
        return f"{place:<15} {self.compiler:<28} {self.level or '-':<10}"

    def emulator(self) -> list[str]:
        """Return the command that runs a program of this row's machine. Raises LookupError."""
        target = self.architecture or ("x86_64" if self.model else "")
        if not target:
            if self.level not in native_levels():
                raise LookupError(f"this machine has no {self.level}")
            return []
        folders = os.pathsep.join([*(str(root / "usr/bin") for root in ROOTS), os.environ["PATH"]])
        names = (f"qemu-{target}", f"qemu-{target}-static")
        found = next(filter(None, (shutil.which(name, path=folders) for name in names)), None)
        if found is None:
            raise LookupError(f"no qemu-{target}")
        if self.model not in _models(found):
            raise LookupError(f"{found} has no {self.model}")
        return [found, *(["-cpu", self.model] if self.model else [])]


def _models(emulator: str) -> set[str]:
    listed = subprocess.run([emulator, "-cpu", "help"], capture_output=True, text=True, check=False)
    return {"", *listed.stdout.split()}


def native_levels() -> tuple[str, ...]:
    """Return the levels of x86-64 that this machine has."""
    wanted = {
        "x86-64": set(),
        "x86-64-v2": {"sse4_2", "popcnt", "ssse3"},
        "x86-64-v3": {"avx2", "fma", "bmi2", "f16c", "movbe"},
        "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    }
    match = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    flags = set(match[1].split()) if match else set()
    return tuple(level for level in LEVELS if match and wanted[level] <= flags)


def planted(folder: Path) -> Path:
    """Copy the kernels' sources into ``folder`` with the faults in them; return the folder."""
    shutil.copytree(SOURCES, folder)
    for file, text, fault in FAULTS.values():
        source = (folder / file).read_text()
        if source.count(text) != 1:
            raise LookupError(f"{text!r} stands {source.count(text)} times in {file}, not once")
        (folder / file).write_text(source.replace(text, fault))
    return folder


def toolchain(compiler: str) -> tuple[list[str], str]:
    """Return the command of a compiler, and the root folder that it sees ("": this system's).

    Raises LookupError where neither this system nor a root folder has it.
    """
    if shutil.which(compiler):
        return [compiler], ""
    for root in ROOTS:
        if (root / "usr/bin" / compiler).exists() and os.geteuid() == 0:
            return ["chroot", str(root), compiler], str(root)
    raise LookupError(f"no {compiler}")


def build(row: Row, folder: Path) -> tuple[Path, Path]:
    """Build the right and the faulty kernels of a row, statically; return both binaries.

    Raises LookupError where the compiler is not installed, RuntimeError where it fails.
    """
    command, root = toolchain(row.compiler)
    right, wrong = shutil.copytree(SOURCES, folder / "right"), planted(folder / "wrong")
    level = [f"-march={row.level}"] if row.level else []

    def compile_to(target: Path, *words: str | Path) -> Path:
        seen = [str(word).removeprefix(root) for word in (*words, "-o", target)]
        done = subprocess.run(
            [*command, *seen], capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
        if done.returncode:
            raise RuntimeError(next(iter(done.stderr.splitlines()), "no message"))
        return target

    def compiled(place: Path, source: str) -> Path:
        target = (place / source).with_suffix(".o")
        return compile_to(target, *COMMON_FLAGS, *level, "-c", place / source)

    objects = {path.name: compiled(right, path.name) for path in SOURCES.glob("*.c")}
    binary = compile_to(right / "berth-kernels", "-static", *objects.values(), "-lm")
    objects |= {file: compiled(wrong, file) for file, _, _ in FAULTS.values()}
    return binary, compile_to(wrong / "berth-kernels", "-static", *objects.values(), "-lm")


def checked(command: Sequence[str]) -> tuple[int, list[str], str]:
    """Run a check; return how many kernels pass, the names of the others, and the first reason."""
    done = subprocess.run(
        [*command, "check"], capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    own = [line for line in done.stderr.splitlines() if not line.startswith("qemu")]
    reason = next(iter(own), f"exit status {done.returncode}")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return 0, [], reason
    return answer["passed"], answer["wrong"], reason


def verdict(row: Row, binaries: tuple[Path, Path]) -> str:
    try:
        emulator = row.emulator()
    except LookupError as missing:
        return f"skipped: {missing.args[0]}"
    passed, wrong, reason = checked([*emulator, str(binaries[0])])
    by_compiler = wrong if wrong == MISCOMPILED.get((row.compiler, row.level)) else []
    if passed + len(by_compiler) != KERNELS:
        return f"FAILED: {passed} of {KERNELS} kernels pass, not {', '.join(wrong)}: {reason}"
    for rate in RATES:
        bench = [*emulator, str(binaries[0]), "bench", rate, "--seconds", "0.01"]
        done = subprocess.run(bench, capture_output=True, check=False, timeout=_LIMIT_S)
        if done.returncode or not json.loads(done.stdout)["value"]:
            return f"FAILED: the benchmark of {rate} ends with {done.returncode}"
    found = checked([*emulator, str(binaries[1])])[1]
    if sorted(found) != sorted(FAULTS):
        return f"FAILED: of the faults in {', '.join(FAULTS)} found {', '.join(found) or 'none'}"
    return f"passed; left out: {', '.join(by_compiler)}" if by_compiler else "passed"


def run(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Yield each row with its verdict, as many builds at a time as there are cores."""
    builds: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        builds.setdefault((row.compiler, row.level), []).append(row)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for verdicts in pool.map(_verdicts, builds.values()):
            yield from verdicts


def _verdicts(rows: list[Row]) -> list[tuple[Row, str]]:
    """Return the verdicts of rows that differ in the CPU alone and share a build."""
    try:
        root = toolchain(rows[0].compiler)[1]
        with tempfile.TemporaryDirectory(prefix="berth-", dir=f"{root}/tmp") as folder:
            binaries = build(rows[0], Path(folder))
            return [(row, verdict(row, binaries)) for row in rows]
    except LookupError as missing:
        return [(row, f"skipped: {missing.args[0]}") for row in rows]
    except RuntimeError as error:
        return [(row, f"FAILED: {row.compiler} cannot build it: {error}") for row in rows]


def short_rows() -> list[Row]:
    """Return the rows that the ordinary tests run: three x86 models and aarch64."""
    models = [Row("gcc", MODELS[m], model=m) for m in ("Nehalem", "Haswell", "EPYC-Milan")]
    return [*models, Row("aarch64-linux-gnu-gcc", architecture="aarch64")]


def all_rows() -> list[Row]:
    """Return every row: compilers by levels natively, CPU models and architectures by gcc 14."""
    return [
        *(Row("gcc-14", level, model=model) for model, level in MODELS.items()),
        *(Row(f"{prefix}-gcc-14", architecture=name) for name, prefix in FOREIGN.items()),
        *(Row(compiler, level) for compiler in COMPILERS for level in LEVELS),
    ]


def main() -> int:
    """Print the rows; 1 where one failed."""
    failed = 0
    for row, text in run(all_rows()):
        print(f"kernels  {row.name} {text}", flush=True)
        failed += text.startswith("FAILED")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
