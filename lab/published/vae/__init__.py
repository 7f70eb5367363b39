"""VAE + DNN: relative performance by a calibrated variational auto-encoder and a deep network.

Nichols, Yeom and Bhatele, "Predicting cross-platform relative performance with deep generative
models" (LLNL-ABS-838516). What the abstract leaves open is settled in ``settings``.
"""
