"""Learnt time of deep-learning models: features of a graph, the shipped predictor.

Serving side: numpy only.
"""
