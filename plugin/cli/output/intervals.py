"""Intervals as JSON has them."""

from __future__ import annotations

from berth.predictor.core.prediction import Interval


def as_numbers(interval: Interval | None) -> dict[str, float] | None:
    """Low, middle and high; None: the quantity is not known."""
    if interval is None:
        return None
    return {"low": interval.low, "mid": interval.mid, "high": interval.high}
