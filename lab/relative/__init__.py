"""Relative performance from counters on public data: families, splits, uncertainty, transfer."""
