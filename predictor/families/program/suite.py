"""The reference kernels: their shipped counters, and run times that a site measured of them.

The counters are independent of the machine, because the caches are emulated; a site measures only
the run times.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from berth.pilot.documents import parse_json_lines
from berth.pilot.errors import DocumentError
from berth.pilot.native import runtime_of
from berth.pilot.profile import Profile

COUNTS = Path(__file__).with_name("suite_counts.jsonl.gz")
"""File with the profiles of the suite, one repetition per kernel and problem size;
`lab/kernels/data/README.md` says how they were measured."""


@cache
def suite_profiles() -> Mapping[str, Profile]:
    """Return the reference suite's profiles by name (for example ``Stream_TRIAD-1048576``).

    All profiles at the first problem size come before those at the second. Raises DocumentError if
    the file is damaged.
    """
    try:
        lines = gzip.decompress(COUNTS.read_bytes())
    except (OSError, EOFError) as error:
        raise DocumentError(COUNTS, f"cannot be read: {error}") from None
    profiles = parse_json_lines(lines, Profile, source=COUNTS)
    return {profile.name: profile for profile in profiles.values()}


def timed(platform: str, seconds: Mapping[str, float]) -> list[Profile]:
    """Return the reference suite's profiles with these run times in seconds, as measured on
    ``platform``.

    Kernels without a run time are left out.
    """
    return [
        profile.model_copy(update={"platform": platform, "runtime": runtime_of([seconds[name]])})
        for name, profile in suite_profiles().items()
        if name in seconds
    ]
