"""The thesis's two rules for choosing a slice, kept as baselines beside the recommender.

Panner Selvam's thesis on deep-learning performance: equation 4.2 chooses by predicted memory,
section 3.4.4 by the utilisation of the whole GPU. Both are for an A100 40 GB.
"""

from __future__ import annotations

from collections.abc import Mapping

LIMITS_MB = {"1g.5gb": 5000.0, "2g.10gb": 10000.0, "3g.20gb": 20000.0, "7g.40gb": 40000.0}
"""Equation 4.2's profiles with their upper limits; 4g.20gb is not among them."""
_BY_UTILISATION = ((0.25, "1g.5gb"), (0.5, "2g.10gb"), (0.75, "3g.20gb"))


def by_memory(memory_mb: float) -> str | None:
    """Equation 4.2: strict on both sides, so that exactly 5, 10, 20 or 40 GB belong nowhere."""
    below = 0.0
    for profile, limit in LIMITS_MB.items():
        if below < memory_mb < limit:
            return profile
        below = limit
    return None


def by_utilisation(utilisation: float) -> str:
    """Section 3.4.4: below 25 % seven slices of 5 GB, from 25 to 50 % three of 10 GB.

    For the rest the thesis says "likewise"; read here as two of 20 GB up to 75 %, else the whole.
    """
    for limit, profile in _BY_UTILISATION:
        if utilisation < limit:
            return profile
    return "7g.40gb"


def actual(memory_mb: Mapping[str, float]) -> str | None:
    """Table 4.5's "actual" profile: of those it ran on, the one that its memory fills most."""
    filled = {
        profile: memory_mb[profile] / limit
        for profile, limit in LIMITS_MB.items()
        if profile in memory_mb and memory_mb[profile] <= limit
    }
    return max(filled, key=lambda profile: filled[profile]) if filled else None
