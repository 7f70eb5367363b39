"""Latency on a platform with few measured models: what platforms have in common, learnt."""
