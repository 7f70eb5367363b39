"""Seconds per image predicted from model graphs: timm's data, splits, training, evaluation."""
