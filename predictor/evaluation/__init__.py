"""Evaluation: how good predictions are on what nothing was fitted on."""
