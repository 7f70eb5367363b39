"""Measures: runs a program once and writes down what it did.

The lowest room. Besides the collectors and the benchmark kernels it holds the ground that
all rooms stand on: Counter, Profile, Platform, Signature, error classes, documents and units.
It knows nothing of models, queues or schedulers' submit hooks.
"""
