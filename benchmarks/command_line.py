"""How long the command line takes to start, beside a bare interpreter. Bar: 80 ms."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 21
BAR_MS = 80.0


def median_ms(*command: str | Path) -> float:
    """Median wall time of a whole process in milliseconds, after one warm-up."""
    seconds = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds[1:])


def main() -> None:
    berth = Path(sys.executable).parent / "berth"
    bare = median_ms(sys.executable, "-c", "pass")
    shown = median_ms(berth, "--help")
    print(f"python -c pass   {bare:7.1f} ms")
    print(f"berth --help     {shown:7.1f} ms   bar {BAR_MS:.0f} ms: {_verdict(shown)}")


def _verdict(ms: float) -> str:
    return "met" if ms <= BAR_MS else "missed"


if __name__ == "__main__":
    main()
