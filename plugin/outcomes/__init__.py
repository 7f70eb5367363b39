"""Evaluates decisions by their jobs' outcomes: accuracy of predictions, gain of placements."""
