"""Published systems re-implemented: VAE + DNN, xAMM, DIPPM, TraPPM, GNN + language model."""
