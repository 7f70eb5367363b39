"""Slow-downs on MIG slices, leave-one-model-out."""
