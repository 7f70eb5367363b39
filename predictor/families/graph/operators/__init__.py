"""Predict the time of one operator on any GPU from the GPU's data sheet and the operator's shapes.

The least time by physics (roofline, power limit) is divided by a learnt utilisation in (0, 1],
as in NeuSight (ASPLOS 2025); a launch time is added. Needs numpy and onnxruntime only.
"""
