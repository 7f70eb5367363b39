"""Predict the time of a model graph on a platform where few or no models were measured.

A Gaussian process over (graph, platform, software) whose covariance describes how similar two
platforms are. It is trained in ``lab/transfer``; prediction needs numpy only.
"""
