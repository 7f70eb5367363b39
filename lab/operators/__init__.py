"""Operators on GPUs never seen, whole models as their sum, and baselines."""
