"""What every evaluation and training of the lab stands on.

``table``: rows of named columns. ``splits``: what is held out. ``evaluate``: a family's held-out
predictions. ``figures``: their errors, also against the samples of something new. ``report``:
figures as text, Markdown and JSON, and a bundle's card.

Shared with what a site trains by itself, and therefore in ``predictor/learning``: ``resume``
(interrupted work goes on), ``onnx_export`` (trees, hand-written graphs, the check
of agreement), ``metrics`` (one Kendall's tau, one R2).
"""
