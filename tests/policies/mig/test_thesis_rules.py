"""The thesis's rules, its table 4.5, and what we say in the same cases."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.policies.mig import lookup
from berth.policies.mig.by_memory import (
    THESIS_LIMITS_MB,
    thesis_by_memory,
    thesis_by_utilisation,
)
from berth.predictor.core.prediction import Interval

PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")
# Model, batch, predicted MB, actual MB on the whole GPU, per cent of each profile that it ran on.
# convnext_base, batch 4: the printed 1,652 MB contradict the printed 61 % of 5 GB; the other
# percentages agree on about 3,050 MB, which stands here.
TABLE_4_5 = (
    ("densenet121", 8, 2865, 3272, (58, 30, 15, 8), "1g.5gb"),
    ("densenet121", 32, 5952, 6294, (None, 60, 30, 16), "2g.10gb"),
    ("swin_base_patch4", 2, 2873, 2944, (52, 27, 14, 7), "1g.5gb"),
    ("swin_base_patch4", 16, 6736, 6156, (None, 59, 30, 15), "2g.10gb"),
    ("convnext_base", 4, 4771, 3050, (61, 31, 16, 8), "1g.5gb"),
    ("convnext_base", 128, 26439, 30996, (None, None, None, 77), "7g.40gb"),
)
A100 = lookup("A100-40GB")


def actual(memory_mb: Mapping[str, float]) -> str | None:
    """Table 4.5's "actual" profile: of those it ran on, the one that its memory fills most."""
    filled = {
        profile: memory_mb[profile] / limit
        for profile, limit in THESIS_LIMITS_MB.items()
        if profile in memory_mb and memory_mb[profile] <= limit
    }
    return max(filled, key=lambda profile: filled[profile]) if filled else None


Case = tuple[str, int, int, int, tuple[int | None, ...], str]


@pytest.mark.parametrize("case", TABLE_4_5, ids=lambda case: f"{case[0]}-{case[1]}")
def test_table_4_5_is_reproduced(case: Case) -> None:
    _, _, said, real, filled, profile = case
    ran = {
        name: share / 100 * THESIS_LIMITS_MB[name]
        for name, share in zip(PROFILES, filled, strict=True)
        if share is not None
    }
    assert thesis_by_memory(said) == profile
    assert actual(ran) == profile
    need = Interval(0.9 * real * 1e6, real * 1e6, real * 1e6)
    smallest = next(n for n in PROFILES if need.high <= A100.profile(n).memory_bytes)
    assert smallest == profile


def test_the_printed_memory_of_convnext_base_at_batch_4_contradicts_its_percentages() -> None:
    # 61, 31, 16 and 8 % of 5, 10, 20 and 40 GB.
    meant = [0.61 * 5000, 0.31 * 10000, 0.16 * 20000, 0.08 * 40000]
    assert min(meant) > 1.8 * 1652


@pytest.mark.parametrize("exact", [0, 5000, 10000, 20000, 40000])
def test_equation_4_2_has_holes_at_its_own_limits(exact: float) -> None:
    assert thesis_by_memory(exact) is None


@given(st.floats(0.1, 60000))
def test_elsewhere_equation_4_2_is_the_smallest_profile_that_is_large_enough(mb: float) -> None:
    found = thesis_by_memory(mb)
    larger = [name for name, limit in THESIS_LIMITS_MB.items() if mb < limit]
    assert found in ({larger[0], None} if larger else {None})
    assert found is not None or mb in {5000.0, 10000.0, 20000.0} or mb >= 40000


@pytest.mark.parametrize(
    ("used", "profile"),
    [(0.011, "1g.5gb"), (0.2499, "1g.5gb"), (0.25, "2g.10gb"), (0.49, "2g.10gb"),
     (0.5, "3g.20gb"), (0.75, "7g.40gb"), (1.0, "7g.40gb")],
)  # fmt: skip
def test_the_utilisation_rule(used: float, profile: str) -> None:
    assert thesis_by_utilisation(used) == profile
