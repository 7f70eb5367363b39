"""The kernels' check on CPUs that this machine has not, under qemu-user.

The kernels are built as a site does and once more with faults planted in five of them; the check
and the rates of a core run. All 80 kernels must pass, and exactly the five be found.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
LIMIT_S = 1800


class EmulatedCpu(NamedTuple):
    """What kernels are built for, and what they run on."""

    compiler: str
    emulator: str
    """Without ``-static``."""
    level: str = ""
    """Of x86-64."""
    model: str = ""
    """CPU model of qemu-user."""

    def command(self) -> list[str]:
        """What runs a program of this CPU. Raises LookupError where something is not installed."""
        names = (self.emulator, f"{self.emulator}-static")
        found = next(filter(None, map(shutil.which, names)), None)
        if found is None or shutil.which(self.compiler) is None:
            raise LookupError(f"no {self.emulator if found is None else self.compiler}")
        return [found, *(["-cpu", self.model] if self.model else [])]


CPUS = {
    "aarch64": EmulatedCpu("aarch64-linux-gnu-gcc", "qemu-aarch64"),
    "Nehalem": EmulatedCpu("gcc", "qemu-x86_64", "x86-64-v2", "Nehalem"),
}


def planted(folder: Path) -> Path:
    """Copy the kernels' sources into ``folder`` with the faults in them; return the folder."""
    shutil.copytree(SOURCES, folder)
    for file, text, fault in FAULTS.values():
        source = (folder / file).read_text()
        if source.count(text) != 1:
            raise LookupError(f"{text!r} stands {source.count(text)} times in {file}, not once")
        (folder / file).write_text(source.replace(text, fault))
    return folder


def build(cpu: EmulatedCpu, folder: Path) -> tuple[Path, Path]:
    """Build the right and the faulty kernels, statically; return both binaries."""
    right, wrong = shutil.copytree(SOURCES, folder / "right"), planted(folder / "wrong")
    level = [f"-march={cpu.level}"] if cpu.level else []

    def compile_to(target: Path, *words: str | Path) -> Path:
        subprocess.run([cpu.compiler, *words, "-o", target], check=True, timeout=LIMIT_S)
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
        [*command, "check"], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    own = [line for line in done.stderr.splitlines() if not line.startswith("qemu")]
    reason = next(iter(own), f"exit status {done.returncode}")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return 0, [], reason
    return answer["passed"], answer["wrong"], reason
