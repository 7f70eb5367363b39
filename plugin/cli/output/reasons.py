"""Explanations as JSON has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from berth.predictor.families.program.explain import Explanation


def reason_document(e: Explanation) -> dict[str, Any]:
    """One platform."""
    return {
        "platform": e.platform,
        "sentence": e.sentence(),
        "bound": e.bound.value,
        "limit": e.limit,
        "limit_share": e.limit_share,
        "typical_speedup": e.typical_speedup,
        "effects": [
            {"name": x.name, "counters": x.counters, "factor": x.factor} for x in e.effects
        ],
    }
