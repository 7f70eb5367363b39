"""The kernels' check on other machines: compilers, levels of x86-64, CPUs and architectures.

    python tests/machines/kernel_matrix.py            (all that is installed here; `make machines`)

A row builds the kernels as a site does and once more with faults planted in five of them, runs the
check natively or under qemu-user, and passes where all 80 kernels pass and exactly the five are
found. What is not installed is named. As root, compilers that this system does not have come from a
root folder of Debian 13, made once by debootstrap under BERTH_MACHINES (default
/var/tmp/berth-machines).
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
        found = [shutil.which(f"qemu-{target}{end}", path=_path()) for end in ("-static", "")]
        if not any(found):
            raise LookupError(f"no qemu-{target}")
        return [next(filter(None, found)), *(["-cpu", self.model] if self.model else [])]


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


def root_folder() -> Path:
    """Return the folder that holds Debian 13 for compilers that this system lacks."""
    return Path(os.environ.get("BERTH_MACHINES", "/var/tmp/berth-machines")) / "trixie"


def _path() -> str:
    return os.pathsep.join([os.environ["PATH"], str(root_folder() / "usr/bin")])


def planted(folder: Path) -> Path:
    """Copy the kernels' sources into ``folder`` with the faults in them; return the folder."""
    shutil.copytree(SOURCES, folder)
    for file, text, fault in FAULTS.values():
        source = (folder / file).read_text()
        if source.count(text) != 1:
            raise LookupError(f"{text!r} stands {source.count(text)} times in {file}, not once")
        (folder / file).write_text(source.replace(text, fault))
    return folder


@dataclass(frozen=True)
class Toolchain:
    """A compiler of this system or of the root folder, and a folder that both can see."""

    command: tuple[str, ...]
    inside: str
    """The root folder as the compiler sees it: "" or a prefix to take away."""
    folder: Path

    @classmethod
    def of(cls, row: Row, folder: Path) -> Toolchain:
        """Return the row's compiler. Raises LookupError where there is none."""
        if shutil.which(row.compiler):
            return cls((row.compiler,), "", folder)
        root = root_folder()
        if not (root / "usr/bin" / row.compiler).exists() or os.geteuid() != 0:
            raise LookupError(f"no {row.compiler}")
        inside = Path(tempfile.mkdtemp(dir=root / "tmp"))
        return cls(("chroot", str(root), row.compiler), str(root), inside)

    def compile(self, flags: Sequence[str], sources: Sequence[Path], target: Path) -> None:
        """Compile. Raises RuntimeError with the compiler's first line."""
        words = [str(path).removeprefix(self.inside) for path in (*sources, "-o", target)]
        done = subprocess.run(
            [*self.command, *flags, *words, *(() if "-c" in flags else ("-lm",))],
            capture_output=True, text=True, check=False, timeout=_LIMIT_S,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(next(iter(done.stderr.splitlines()), "no message"))


def build(row: Row, folder: Path) -> tuple[Path, Path]:
    """Build the right and the faulty kernels of a row, statically; return both binaries.

    Raises LookupError where the compiler is not installed, RuntimeError where it fails.
    """
    tools = Toolchain.of(row, folder)
    right, wrong = tools.folder / "right", planted(tools.folder / "wrong")
    shutil.copytree(SOURCES, right)
    flags = [*COMMON_FLAGS, *([f"-march={row.level}"] if row.level else [])]
    objects = {}
    changed = {file for file, _, _ in FAULTS.values()}
    for source in sorted(SOURCES.glob("*.c")):
        for place in (right, wrong) if source.name in changed else (right,):
            object_file = place / f"{source.stem}.o"
            tools.compile([*flags, "-c"], [place / source.name], object_file)
            objects[place, source.name] = object_file
    for place in (right, wrong):
        files = [objects.get((place, s.name), objects[right, s.name]) for s in SOURCES.glob("*.c")]
        tools.compile(["-static"], files, place / "berth-kernels")
    return right / "berth-kernels", wrong / "berth-kernels"


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
    """Return "passed", or what is wrong. Raises LookupError where the row cannot be run here."""
    emulator = row.emulator()
    passed, wrong, reason = checked([*emulator, str(binaries[0])])
    if passed != KERNELS:
        return f"FAILED: {passed} of {KERNELS} kernels pass, not {', '.join(wrong)}: {reason}"
    found = checked([*emulator, str(binaries[1])])[1]
    if sorted(found) != sorted(FAULTS):
        return f"FAILED: of the faults in {', '.join(FAULTS)} found {', '.join(found) or 'none'}"
    return "passed"


def run(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Yield each row with its verdict; rows that differ in the CPU alone share a build."""
    with tempfile.TemporaryDirectory(prefix="berth-machines-") as scratch:
        binaries: dict[tuple[str, str], tuple[Path, Path]] = {}
        for row in rows:
            key = (row.compiler, row.level)
            try:
                row.emulator()
                if key not in binaries:
                    folder = Path(scratch) / str(len(binaries))
                    folder.mkdir()
                    binaries[key] = build(row, folder)
                yield row, verdict(row, binaries[key])
            except LookupError as missing:
                yield row, f"skipped: {missing.args[0]}"
            except RuntimeError as error:
                yield row, f"FAILED: {row.compiler} cannot build the kernels: {error}"


def short_rows() -> list[Row]:
    """Return the rows that the ordinary tests run: three x86 models and aarch64."""
    models = [Row("gcc", MODELS[m], model=m) for m in ("Nehalem", "Haswell", "EPYC-Milan")]
    return [*models, Row("aarch64-linux-gnu-gcc", architecture="aarch64")]


def all_rows() -> list[Row]:
    """Return every row: compilers by levels natively, CPU models and architectures by gcc 14."""
    return [
        *(Row(compiler, level) for compiler in COMPILERS for level in LEVELS),
        *(Row("gcc-14", level, model=model) for model, level in MODELS.items()),
        *(Row(f"{prefix}-gcc-14", architecture=name) for name, prefix in FOREIGN.items()),
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
