"""Measures deep-learning models: latency, memory and energy of one model at one batch.

``measure.measure`` runs one :class:`document.MeasureOrder` in a child process and gives a
``berth.model-run/1`` document (:mod:`document`); ``campaign`` does so for many, into a file that
survives a kill. Inside of the child: ``onnx_engine`` (onnxruntime) and ``torch_engine`` (PyTorch)
make a model runnable, ``protocol`` warms up, repeats and times it, ``meters`` read energy
and memory.

onnxruntime's telemetry is off here as in ``berth.predictor``: which models a site measures is its
own affair.
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
