"""Relative performance over many platforms from counters, served from a bundle."""
