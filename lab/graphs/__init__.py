"""Deep-learning graphs: every family by the same splits."""

from __future__ import annotations

from berth.predictor.graphs.limits import FileLimits

PATIENT = FileLimits(seconds=300.0)
"""For reading graphs of data sets: a machine that is busy with evaluations is no broken file."""
