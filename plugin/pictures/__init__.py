"""Drawings of predictions and their explanations; needs matplotlib."""
