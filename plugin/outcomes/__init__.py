"""What came of decisions: how good predictions were, what placements gained, what tries cost."""
