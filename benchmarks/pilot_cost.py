"""What a pilot costs of the program's own processor time, its own start included.

``berth pilot run -- PROGRAM`` is started as a user starts it, and the processor time of all its
processes is divided by that of the program alone. Programs compute for 0.05 to 12 s of processor
time on one core: the same work at several lengths, once in C and once in Python, beside compressors
where they are installed. Figures are medians of three; Berth's modules are compiled, as pip leaves
them. Bars: the median 2.2, the worst 4. Programs are named as arguments (all by default). Load of
the machine moves wall times, processor times little.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from real_programs import written_text

BAR_MEDIAN, BAR_WORST = 2.2, 4.0
RUNS = 3
LENGTHS_S = (0.05, 0.3, 1.0, 3.0, 12.0)
BUSY = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int c, char **v) { double until = atof(v[1]), s = c; struct timespec t;
  do { for (int i = 1; i < 100000; i++) s += 1.0 / i;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); } while (t.tv_sec + 1e-9 * t.tv_nsec < until);
  printf("%g\\n", s); return 0; }
"""
PYTHON = "import time\ns = 0\nwhile time.process_time() < {}: s += sum(range(9999))\nprint(s)"


def spent_s(command: Sequence[str], folder: Path) -> float:
    """Return the processor time in seconds of a command and of all its processes. Raises
    CalledProcessError."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=folder, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def programs(folder: Path) -> dict[str, Sequence[str]]:
    """Return the commands of all programs that can run here, and write what they need."""
    commands: dict[str, Sequence[str]] = {}
    if (compiler := shutil.which("cc")) is not None:
        (folder / "busy.c").write_text(BUSY)
        subprocess.run([compiler, "-O1", "-o", "busy", "busy.c"], cwd=folder, check=True)
        commands |= {f"C {length:g} s": ("./busy", str(length)) for length in LENGTHS_S}
    for length in LENGTHS_S:
        commands[f"Python {length:g} s"] = (sys.executable, "-c", PYTHON.format(length))
    (folder / "text").write_text(written_text(9_000_000))
    for name, words in (("gzip", ("-9", "-k", "-f")), ("xz", ("-1", "-k", "-f"))):
        if shutil.which(name) is not None:
            commands[name] = (name, *words, "text")
    return commands


def main() -> int:
    """Print a row a program, then the bars; 1 where one is missed."""
    berth = Path(sys.executable).with_name("berth")
    ratios = []
    print(f"{'program':14}{'native s':>10}{'pilot s':>10}{'times':>8}")
    with tempfile.TemporaryDirectory(prefix="berth-cost-") as scratch:
        folder = Path(scratch)
        spent_s((str(berth), "pilot", "run", "--quiet", "--", "true"), folder)
        for name, command in programs(folder).items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            pilot = (str(berth), "pilot", "run", "--quiet", "--", *command)
            native_s = statistics.median(spent_s(command, folder) for _ in range(RUNS))
            pilot_s = statistics.median(spent_s(pilot, folder) for _ in range(RUNS))
            ratios.append(pilot_s / native_s)
            print(f"{name:14}{native_s:10.2f}{pilot_s:10.2f}{ratios[-1]:8.2f}", flush=True)
    middle, worst = statistics.median(ratios), max(ratios)
    print(f"processor time of a pilot / native: median {middle:.2f}, worst {worst:.2f}", end="")
    print(f" of {len(ratios)} programs on {os.uname().machine} (bars {BAR_MEDIAN}, {BAR_WORST:g})")
    return int(middle > BAR_MEDIAN or worst > BAR_WORST)


if __name__ == "__main__":
    sys.exit(main())
