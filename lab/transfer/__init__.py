"""Learning what platforms have in common, so that a new one needs few measured models."""
