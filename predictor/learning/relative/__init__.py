"""Training of models for the relative performance of a site's programs on its platforms."""
