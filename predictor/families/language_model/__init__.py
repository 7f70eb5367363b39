"""Language models from their configuration: throughput, latency, memory, energy.

A Hugging Face ``config.json`` and a load (batch, lengths, parallelism, bits) on an accelerator:
counting (``config``, ``memory``), physics calibrated by framework (``physics``), what it misses
(``residual``, an ONNX), and all of it together with intervals (``predictor``). Serving needs
numpy and onnxruntime only.
"""
