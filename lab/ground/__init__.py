"""Shared tools of all evaluations and trainings in the lab.

``table``: rows of named columns. ``splits``: which rows are held out. ``evaluate``: held-out
predictions of each method. ``figures``: the errors of predictions, also as curves of error against
the number of samples of a new device. ``report``: figures as text, Markdown and JSON, and the
model card of a bundle. ``resume``: continues interrupted work. ``trees_as_onnx``: writes trees as
ONNX and checks that both give the same output.
"""
