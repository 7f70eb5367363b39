"""Lines and files of Python by room, beside the sizes that Berth keeps to: ``make sizes``.

Exits with 1 where one is over its bar, so that a room that grows is seen.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("pilot", "predictor", "policies", "plugin")
BARS = {"product": 109_500, "lab": 21_250, "tests": 85_050}
"""Lines, at most: what stood last, so that they only fall (goals: 95,000, 16,000 and 70,000)."""
BAR_FILES = 697
"""Files of the four rooms of the product, at most."""


def size(folder: str) -> tuple[int, int]:
    """Return how many lines of Python a folder has, and in how many files."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return sum(len(path.read_bytes().splitlines()) for path in files), len(files)


def main() -> int:
    sizes = {room: size(room) for room in (*PRODUCT, "lab", "tests", "benchmarks")}
    product = tuple(map(sum, zip(*(sizes[room] for room in PRODUCT), strict=True)))
    rows = [*((room, *sizes[room]) for room in PRODUCT), ("product", *product)]
    rows += [(room, *sizes[room]) for room in ("lab", "tests", "benchmarks")]
    over = False
    print(f"{'':<12}{'lines':>8}{'files':>7}  bar")
    for name, lines, files in rows:
        bars = [f"{BARS[name]:,} lines"] if name in BARS else []
        over_now = name in BARS and lines > BARS[name]
        if name == "product":
            bars.append(f"{BAR_FILES} files")
            over_now = over_now or files > BAR_FILES
        over = over or over_now
        verdict = f"{', '.join(bars)}: {'over' if over_now else 'kept'}" if bars else ""
        print(f"{name:<12}{lines:>8,}{files:>7,}  {verdict}".rstrip())
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
