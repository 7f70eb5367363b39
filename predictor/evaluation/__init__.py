"""Evaluation: how good the predictions are on kernels that nothing was fitted on."""
