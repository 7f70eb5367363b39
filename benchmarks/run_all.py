"""Run every benchmark and print its table, the machine named first: ``make bench``.

Each ``benchmarks/*.py`` is a program of its own that prints a table with its bars and exits 0
when it could measure (a missed bar is a figure, not a failure).
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OF_TRACES = ("replay",)
LONG = ("month",)
COUNTED = ("sizes",)
"""Not measured: counted, by `make sizes`."""


def machine() -> str:
    """One line: processor, cores, memory, kernel, Python."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines()
                 if line.startswith("model name")]  # fmt: skip
        model = names[0] if names else model
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {os.cpu_count()} cores, {gib:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def main() -> int:
    """Run them one after the other; the exit status says whether all could measure."""
    present = {
        path.stem: path
        for path in sorted(HERE.glob("*.py"))
        if path.stem not in ("run_all", *COUNTED)
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(present))
    parser.add_argument("--trace", type=Path, help=f"jobs (SWF, sacct): for {', '.join(OF_TRACES)}")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in present]:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    print(f"machine: {machine()}\n", flush=True)
    failed = []
    for name in options.names or [name for name in present if name not in LONG]:
        print(f"== {name}", flush=True)
        if name in OF_TRACES and options.trace is None:
            print("not run: it takes --trace FILE\n", flush=True)
            continue
        jobs = [options.trace] if name in OF_TRACES else []
        if subprocess.run([sys.executable, present[name], *jobs], check=False).returncode != 0:
            failed.append(name)
        print(flush=True)
    if left := [] if options.names else LONG:
        print(f"long ones, by name only: {', '.join(left)}")
    if failed:
        print(f"could not measure: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
