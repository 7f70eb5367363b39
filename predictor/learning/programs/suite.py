"""The reference suite as it is shipped: what each kernel counts, to be joined with a node's times.

Counts do not depend on the machine that they are made on (the caches are emulated), so that a
site measures times only.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError
from berth.pilot.native import runtime_of
from berth.pilot.profile import Profile

COUNTS = Path(__file__).with_name("suite_counts.jsonl.gz")
"""Profiles of one repetition each, made by ``python -m lab.kernels.suite_counts``."""


@cache
def suite_profiles() -> Mapping[str, Profile]:
    """By name (``Stream_TRIAD-1048576``), all at the first size before any at the second.

    Raises DocumentError where the file is damaged.
    """
    try:
        lines = gzip.decompress(COUNTS.read_bytes()).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DocumentError(COUNTS, f"cannot be read: {error}") from None
    found = (parse_json(line, Profile, source=COUNTS) for line in lines)
    return {profile.name: profile for profile in found}


def timed(platform: str, seconds: Mapping[str, float]) -> list[Profile]:
    """The suite's profiles as if piloted on ``platform``; kernels without a time are left out."""
    return [
        profile.model_copy(update={"platform": platform, "runtime": runtime_of([seconds[name]])})
        for name, profile in suite_profiles().items()
        if name in seconds
    ]
