"""Whole programs on one core of many CPUs: Berth's prediction beside plain baselines."""
