"""Learns and predicts: from a Profile and a Platform to a Prediction with an interval.

What *serves* needs numpy and onnxruntime only; what *trains* lives in ``predictor.training``
and is never imported by the serving side. Knows nothing of schedulers and queues.
"""
