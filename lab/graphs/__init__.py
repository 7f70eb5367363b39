"""Deep-learning graphs: every family by the same splits."""
