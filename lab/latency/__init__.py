"""Seconds of an image by model graph: timm's measurements, splits, training, evaluation."""
