"""Families that learn relative performance over many platforms from counters."""
