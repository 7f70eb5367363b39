"""How much slower a workload is on a slice of its GPU (serving: numpy and onnxruntime only).

``t = smooth max(what does not shrink with the slice, work / effective share)``: launches and the
host on one side, compute and memory traffic on the other. Two ways to find how much of each a
workload has: the law fitted to its own times on the whole GPU over batches and processes
(``sweep``), or one number learnt from utilisation, power and step time (``latent``). ``predictor``
puts them together with intervals; ``berth.policies.mig.recommend`` chooses a slice.
"""

from __future__ import annotations

from berth.predictor.families.slices.physics import Share
from berth.predictor.families.slices.workload import SliceWorkload

__all__ = ["Share", "SliceWorkload"]
