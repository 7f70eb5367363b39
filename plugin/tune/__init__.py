"""Run a tune with the search of ``policies/tuning``: its folder, its workers, its report.

Needs the extra ``berth[tune]`` (Optuna, matplotlib).
"""
