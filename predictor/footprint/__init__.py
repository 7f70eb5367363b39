"""Predict a model graph's peak memory, with an interval, and its energy.

``footprint.count`` counts the model's own memory, ``footprint.footprint`` adds the framework's.
These modules need numpy and no deep-learning framework.
"""
