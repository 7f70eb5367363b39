"""Slow-downs on MIG slices."""
