"""What a pilot costs of the program's own processor and wall time, on real programs of 0.5 to 3 s.

Bars: processor time at most 8 times the program's (median), 15 (worst). With ``--accuracy``, the
counts of the same pilots are held against an emulated run that simulates everything; misses are
weighed by what they cost, as a share of the program's time. Programs are named as arguments (all
that are installed by default). Load of the machine moves wall times, not processor times.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from real_programs import SOURCES, written_text

from berth.pilot.collectors.valgrind import RULES
from berth.pilot.emulate import emulate
from berth.pilot.launch import Order, run_one
from berth.pilot.options import PilotOptions
from berth.pilot.profile import Profile
from berth.pilot.run_pilot import run_pilot

BAR_MEDIAN, BAR_WORST = 8.0, 15.0
BEFORE = "29 times (median), 49 (worst)"
"""Processor time of pilots until November 2026, of 15 other real programs."""
NATIVE_RUNS = 3
COMPLETE_LIMIT_S = 300.0
COST_S = {
    "l1_load_misses": 2e-9,
    "l2_load_misses": 10e-9,
    "llc_load_misses": 80e-9,
    "l1_store_misses": 1e-9,
    "l2_store_misses": 5e-9,
    "llc_store_misses": 20e-9,
    "branch_misses": 5e-9,
}
"""About what a miss costs on servers, so that rare misses do not count."""
MIX = ("loads", "stores", "branches", "int_ops", "fp64_ops", "load_bytes", "store_bytes")
PERL = 'for (split) { $c{$_}++ } END { print scalar keys %c, "\\n" }'
SIEVE = """
n = 4_000_000
sieve = bytearray([1]) * (n + 1)
for i in range(2, n + 1):
    if sieve[i]:
        for j in range(i * i, n + 1, i):
            sieve[j] = 0
print(sum(sieve), sum(len(str(k)) for k in range(700_000)))
"""
DERIVE = "enc -aes-256-ctr -pbkdf2 -iter 2000000 -k pass -S 00 -in text -out cipher"
NODE = (
    "let s=0;const m=new Map();for(let i=0;i<8e6;i++){m.set(i%100003,i);s+=m.get((i*7)%100003)||0}"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A program by what has to be installed, and the command in a folder with its input."""

    needs: str
    command: Callable[[Path], Sequence[str]]


def _compiled(name: str, *options: str) -> Callable[[Path], Sequence[str]]:
    def command(folder: Path) -> Sequence[str]:
        source = SOURCES / name
        run_one(
            Order(
                ("gcc", *options, "-o", str(folder / "own"), str(source), "-lm"), dict(os.environ)
            )
        )
        return ("./own", "8000000")

    return command


def _c_source(folder: Path) -> Sequence[str]:
    lines = ["#include <math.h>"]
    for k in range(260):
        lines.append(
            f"double f{k}(const double *a, double *b, int n) {{ double s = {k}; "
            f"for (int i = 0; i < n; i++) {{ if (a[i] > {k}.5) s += sqrt(a[i]) * b[i]; "
            f"else s -= a[i] / (b[i] + {k}); b[i] = s; }} return s; }}"
        )
    (folder / "many.c").write_text("\n".join(lines))
    return ("gcc", "-O2", "-c", "many.c", "-o", "many.o")


def _pi(folder: Path) -> Sequence[str]:
    (folder / "pi.bc").write_text("scale=1700;4*a(1)\nquit\n")
    return ("bc", "-q", "-l", "pi.bc")


def _sql(folder: Path) -> Sequence[str]:
    (folder / "work.sql").write_text((SOURCES / "work.sql").read_text())
    return ("sqlite3", "work.db", ".read work.sql")


def _sieve(folder: Path) -> Sequence[str]:
    (folder / "sieve.py").write_text(SIEVE)
    return ("/usr/bin/python3", "sieve.py")


def _numpy(folder: Path) -> Sequence[str]:
    (folder / "work.py").write_text((SOURCES / "work_numpy.py").read_text())
    return (sys.executable, "work.py")


KINDS: dict[str, Kind] = {
    "gzip": Kind("gzip", lambda _: ("gzip", "-9", "-k", "-f", "text")),
    "bzip2": Kind("bzip2", lambda _: ("bzip2", "-k", "-f", "text")),
    "xz": Kind("xz", lambda _: ("xz", "-1", "-T1", "-k", "-f", "text")),
    "zstd": Kind("zstd", lambda _: ("zstd", "-11", "-q", "-k", "-f", "text")),
    "sqlite": Kind("sqlite3", _sql),
    "perl": Kind("perl", lambda _: ("perl", "-ne", PERL, "text", "text", "text")),
    "awk": Kind(
        "awk", lambda _: ("awk", "{for(i=1;i<=NF;i++)c[$i]++}END{print NR}", "text", "text")
    ),
    "sort": Kind("sort", lambda _: ("sort", "--parallel=1", "-o", "sorted", "words")),
    "openssl": Kind("openssl", lambda _: ("openssl", *DERIVE.split())),
    "bc": Kind("bc", _pi),
    "python": Kind("/usr/bin/python3", _sieve),
    "numpy": Kind(sys.executable, _numpy),
    "gcc": Kind("gcc", _c_source),
    "node": Kind("node", lambda _: ("node", "-e", NODE)),
    "own": Kind("gcc", _compiled("own.c", "-O2")),
}


def spent_s() -> float:
    """Processor time of this process, which runs the pilot, and of all its ended children."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in every)


def ended_by(profile: Profile) -> str:
    """Return the rule that ended the counting; "program" where the whole run was counted."""
    counted = profile.counters["instructions"]
    if counted.complete:
        return "program"
    return next((cut for cut, words in RULES.items() if words in (counted.note or "")), "failure")


def off_in_time(
    profile: Profile, complete: dict[str, float], native_s: float
) -> tuple[float, float]:
    """Return the error of the misses as a share of the run time, and the mix's largest error.

    Both per instruction, so that a count that ended early can be compared.
    """
    counted = profile.value("instructions") or 1.0
    part = counted / complete["instructions"]
    missed = sum(
        each * ((profile.value(name) or 0.0) / part - complete.get(name, 0.0))
        for name, each in COST_S.items()
    )
    mix = [
        abs((profile.value(name) or 0.0) / part - complete[name]) / complete["instructions"]
        for name in MIX
        if name in complete
    ]
    return missed / native_s, max(mix)


def complete_counts(command: Sequence[str], folder: Path) -> dict[str, float] | None:
    """Return the counts of an emulated run that simulates everything; None where it was cut."""
    order = Order(tuple(command), dict(os.environ), cwd=str(folder))
    found = emulate(order, tools=("emulator",), budget_s=COMPLETE_LIMIT_S, once=True).counters
    if not found or not found["instructions"].complete:
        return None
    return {name: count.value for name, count in found.items() if count.value is not None}


def main() -> int:
    """Print a row a program, then the bars; 1 where one is missed."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    accuracy = "--accuracy" in sys.argv
    processor, wall, apart = [], [], []
    text = written_text(9_000_000)
    print(f"{'program':9}{'native s':>9}{'processor':>11}{'wall':>7}{'ended by':>16}", end="")
    print("  misses off, of the run time; largest error of the mix" if accuracy else "")
    for name, kind in KINDS.items():
        if (words and name not in words) or shutil.which(kind.needs) is None:
            continue
        with tempfile.TemporaryDirectory(prefix="berth-cost-") as scratch:
            folder = Path(scratch)
            (folder / "text").write_text(text)
            (folder / "words").write_text(text.replace(" ", "\n"))
            command = kind.command(folder)
            native = [
                run_one(Order(tuple(command), dict(os.environ), cwd=scratch))
                for _ in range(NATIVE_RUNS)
            ]
            if not all(run.succeeded for run in native):
                print(f"{name:9} {native[0].describe()}: left out")
                continue
            cpu_s = statistics.median(run.cpu_s for run in native)
            wall_s = statistics.median(run.wall_s for run in native)
            os.chdir(folder)
            before_s, begun_s = spent_s(), time.monotonic()
            profile = run_pilot(PilotOptions(tuple(command), show_output=False, count=True))
            processor.append((spent_s() - before_s) / cpu_s)
            wall.append((time.monotonic() - begun_s) / wall_s)
            row = f"{name:9}{cpu_s:9.2f}{processor[-1]:11.1f}{wall[-1]:7.1f}"
            row += f"{ended_by(profile):>16}"
            if accuracy and (complete := complete_counts(command, folder)) is not None:
                time_off, mix_off = off_in_time(profile, complete, cpu_s)
                apart.append(abs(time_off))
                row += f"  {time_off:+8.1%} {mix_off:8.2%}"
            print(row, flush=True)
            os.chdir("/")
    for what, ratios in (("processor time", processor), ("wall time", wall)):
        middle, worst = statistics.median(ratios), max(ratios)
        print(f"{what}: median {middle:.1f}, worst {worst:.1f} of {len(ratios)} programs")
    print(f"bars, of processor time: {BAR_MEDIAN:g} and {BAR_WORST:g}; before: {BEFORE}")
    if apart:
        middle, worst = statistics.median(apart), max(apart)
        print(f"misses off: median {middle:.1%}, worst {worst:.1%} of the run time")
    return int(statistics.median(processor) > BAR_MEDIAN or max(processor) > BAR_WORST)


if __name__ == "__main__":
    sys.exit(main())
