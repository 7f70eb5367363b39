"""Builds of one program, and programs that choose at run time: what each needs, where it may run.

    python benchmarks/instruction_sets.py

Each program is piloted here (emulated). The table says which instruction sets beyond x86-64-v2 it
executed, which it needs, and whether it may run on nodes of v2, v3 and v4, on a node of which
nothing is known, and where its pilot ran. Programs that are not installed are named and left out.
Exits 1 where a build for a higher level may go to a node that lacks it, or a program may not run
where it ran.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from berth.pilot.collectors.base import Stage
from berth.pilot.collectors.registry import names_of
from berth.pilot.emulate import emulate
from berth.pilot.launch import Order, run_one
from berth.pilot.needs import beyond, needed_sets
from berth.policies.constraints import Case, not_known_to_run, runs_there
from berth.policies.values import Candidate
from berth.predictor.core.forecast import Forecast, SizeGrowth

SOURCE = r"""
#include <stdio.h>
#include <stdint.h>
static double a[4096], b[4096];
int main(void) {
    uint64_t x = 88172645463325252ull, bits = 0;
    double sum = 0;
    for (int k = 1; k < 300; k++) {
        for (int i = 0; i < 4096; i++) { a[i] = a[i] * b[i] + k; sum += a[i]; }
        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
        bits += (uint64_t)__builtin_popcountll(x) + ((x >> (k & 63)) & ~(bits << (x & 31)));
    }
    printf("%g %lu\n", sum, (unsigned long)bits);
}
"""
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
NUMPY = "import numpy; a = numpy.ones((200, 200)); print((a @ a).sum())"
FFMPEG = ("-v", "error", "-f", "lavfi", "-i", "testsrc=d=1:s=160x120", "-f", "null", "-")
INSTALLED = {
    "zstd": ("zstd", "-c", "-3", "/bin/bash"),
    "openblas (numpy)": (sys.executable, "-c", NUMPY),
    "ffmpeg": ("ffmpeg", *FFMPEG),
    "xz": ("xz", "-c", "-0", "/bin/true"),
    "openssl": ("openssl", "speed", "-seconds", "1", "-bytes", "1024", "sha256"),
    "python3": ("/usr/bin/python3", "-c", "print(sum(i * i for i in range(100000)))"),
}
FORECAST = Forecast(
    workload="p", kind="program", digest="", bundle="", targets=("cpu",), architecture="x86_64",
    instruction_sets=(), threads=1, ranks=1, gpus=0, container=None, reference_platform="here",
    reference_runtime_s=1.0, sizes=SizeGrowth(None, 1e9), curves={}, ran_on=("here",),
)  # fmt: skip


def main() -> int:
    """Print the table; 1 where a program may run where it does not, or not where it ran."""
    wrong = 0
    print(f"{'program':22} {'executed':34} {'needs':26} v2    v3    v4    ?     here")
    with tempfile.TemporaryDirectory() as folder:
        for name, command, level in _programs(Path(folder)):
            found = run_one(Order(command, dict(os.environ)))
            order = Order(command, dict(os.environ))
            seen = emulate(order, tools=names_of(Stage.EMULATED), budget_s=120).executed
            program = os.path.realpath(shutil.which(command[0]) or command[0])
            needs = needed_sets((program, *found.executables), seen)
            executed = sorted(beyond(one for sets in seen.sets.values() for one in sets))
            places = [_may_run(needs, sets) for sets in (*((one,) for one in LEVELS), ())]
            here = _may_run(needs, ("x86-64-v1",), platform="here")
            wrong += here != "yes" or (level is None and "no" in places)
            wrong += level is not None and level > "x86-64-v2" and places[0] != "no"
            row = (" ".join(executed) or "-")[:34], (" ".join(needs) or "-")[:26]
            may = " ".join(f"{place:5}" for place in (*places, here))
            print(f"{name:22} {row[0]:34} {row[1]:26} {may}")
    return int(wrong > 0)


def _programs(folder: Path) -> Iterator[tuple[str, tuple[str, ...], str | None]]:
    """Name, command and the level that it is built for (None: for every processor)."""
    source = folder / "program.c"
    source.write_text(SOURCE)
    for level in (*LEVELS, "native"):
        made = folder / f"program-{level}"
        build = ["gcc", "-O3", "-ffast-math", f"-march={level}", "-o", str(made), str(source)]
        if subprocess.run(build, check=False, capture_output=True).returncode:
            print(f"{'build for ' + level:22} left out: gcc does not build it")
        elif run_one(Order((str(made),), dict(os.environ))).succeeded:
            yield f"build for {level}", (str(made),), "x86-64-v3" if level == "native" else level
        else:
            print(f"{'build for ' + level:22} left out: this machine lacks {level}")
    for name, command in INSTALLED.items():
        if shutil.which(command[0]) is None:
            print(f"{name:22} left out: not installed")
        else:
            yield name, command, None


def _may_run(needs: tuple[str, ...], sets: tuple[str, ...], platform: str = "other") -> str:
    place = Candidate(name="place", platform=platform, queue="q", instruction_sets=sets)
    forecast = replace(FORECAST, instruction_sets=needs)
    case = Case(None, place, None, forecast, "", None, None, None)  # type: ignore[arg-type]
    if runs_there(case) is not None:
        return "no"
    return "last" if not_known_to_run(place, forecast) else "yes"


if __name__ == "__main__":
    sys.exit(main())
