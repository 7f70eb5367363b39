"""Training steps: measured labels, the shipped predictor, TraPPM and baselines beside it."""
