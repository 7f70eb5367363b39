"""Run every benchmark and print its table, the machine named first: ``make bench``.

Each ``benchmarks/*.py`` is a program of its own that prints a table with its bars and exits 0
when it could measure (a missed bar is a figure, not a failure).
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


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
    print(f"machine: {machine()}\n", flush=True)
    failed = []
    for path in sorted(HERE.glob("*.py")):
        if path.name in {Path(__file__).name, "__init__.py"}:
            continue
        print(f"== {path.stem}", flush=True)
        if subprocess.run([sys.executable, path], check=False).returncode != 0:
            failed.append(path.stem)
        print(flush=True)
    if failed:
        print(f"could not measure: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
