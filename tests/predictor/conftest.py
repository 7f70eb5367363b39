"""For all of the predictor's tests."""

from toy_bundle import predictor, toy_bundle

__all__ = ["predictor", "toy_bundle"]
