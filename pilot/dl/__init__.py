"""Measure deep-learning models: latency, memory and energy of one model at one batch size.

``measure.measure`` runs one measurement request (:class:`document.MeasureOrder`) in a child process
and returns a ``berth.model-run/1`` document (:mod:`document`). ``campaign`` runs many measurements
and appends them to a file. In the child, ``onnx_engine`` (onnxruntime) and ``torch_engine``
(PyTorch) load the model, ``protocol`` warms up, repeats and times its runs, and ``meters`` read
energy and memory.

onnxruntime's telemetry is switched off, as in ``berth.predictor``, so that nobody else learns which
models a site measures.
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
