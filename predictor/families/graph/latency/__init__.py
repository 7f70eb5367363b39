"""Predict the time of deep-learning models on measured platforms from features of their graphs.

Prediction needs numpy only.
"""
