"""Faults on a real Slurm and a real Flux while jobs come in, and what must hold of every job.

``python -m chaos --on slurm --seconds 1800 --seed 1`` (``make chaos``): submissions at a steady
rate, a seeded sequence of faults (``faults.py``), a history of everything (``history.py``), and a
checker that knows nothing of Berth but the form of its stamps (``checker.py``).
"""
