"""Families that learn a model graph's latency, memory and power."""
