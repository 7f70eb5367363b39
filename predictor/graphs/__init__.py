"""Deep-learning models as graphs: read safely, counted, predicted."""
