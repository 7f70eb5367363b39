"""Relative performance from counters: every family by the same splits."""
