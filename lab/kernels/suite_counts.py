"""What the reference kernels count, as Berth ships it: ``python -m lab.kernels.suite_counts``.

The profiles of ``kernel_profiles.jsonl`` and ``program_profiles.jsonl`` at the sizes that nodes are
calibrated with, without what calibration does not read.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from berth.pilot.node import LARGE_SIZE, SIZE
from berth.predictor.families.program.suite import COUNTS
from lab.kernels.examples import PROFILES

UNLABELLED = PROFILES.with_name("program_profiles.jsonl")
"""Of the kernels that no public measurement is of; sites measure them."""


def shipped_bytes(profiles: Sequence[Path] = (PROFILES, UNLABELLED)) -> bytes:
    """Return the shipped file's content; the same profiles give the same bytes. The first size
    first."""
    lines = []
    every = [
        json.loads(line) for p in profiles for line in p.read_text(encoding="utf-8").splitlines()
    ]
    for size, profile in ((size, one) for size in (SIZE, LARGE_SIZE) for one in every):
        if not profile["name"].endswith(f"-{size}"):
            continue
        for key in ("collectors", "sizes", "warnings"):
            profile.pop(key, None)
        for measurement in profile["counters"].values():
            measurement.pop("note", None)
        lines.append(json.dumps(profile, separators=(",", ":")))
    return gzip.compress("\n".join(lines).encode(), compresslevel=9, mtime=0)


if __name__ == "__main__":
    COUNTS.write_bytes(shipped_bytes())
