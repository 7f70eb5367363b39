"""What the constants of ``predictor/footprint`` are learnt from: labels, and their models."""
