"""Shared tools of all evaluations and trainings in the lab.

``table``: rows of named columns. ``splits``: which rows are held out. ``evaluate``: held-out
predictions of each method. ``figures``: the errors of predictions, also as curves of error against
the number of samples of a new device. ``report``: figures as text, Markdown and JSON, and the
model card of a bundle. ``resume``: continues interrupted work.

Tools that sites also need to train their own models are in ``predictor/learning``: ``onnx_export``
(writes trees as ONNX and checks that both give the same output), ``folds`` (folds of groups,
Kendall's tau, R2).
"""
