"""Training the operator model on NeuSight's measurements."""
